package serving

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api/kserve"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// say writes the status, if it is another one, and reports a new fault in an event.
func (p *pass) say(ctx context.Context, seen *rules.Seen) error {
	state := rules.StateOf(seen)
	was := &p.object.Status
	is := p.status(seen, &state)
	if f := state.Failure; f == nil {
		p.mem.told = ""
	} else if text := f.Reason + ": " + f.Message; text != p.mem.told {
		if last := was.ModelStatus; last == nil || last.LastFailureInfo == nil || last.LastFailureInfo.Message != f.Message {
			p.events.Event(p.regarding(), corev1.EventTypeWarning, f.Reason, f.Message)
		}
		p.mem.told = text
	}
	if equality.Semantic.DeepEqual(was, is) {
		return nil
	}
	before := p.object
	after := &kserve.InferenceService{}
	before.DeepCopyInto(after)
	after.Status = *is
	if err := p.client.Status().Patch(ctx, after, client.MergeFrom(before), client.FieldOwner(Name)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// regarding returns the service as events name it: an object from the cache does not say its kind.
func (p *pass) regarding() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kserve.GroupVersion.String(), Kind: kserve.Kind, Namespace: p.object.Namespace, Name: p.object.Name, UID: p.object.UID, ResourceVersion: p.object.ResourceVersion,
	}
}

// status is what the service says of itself.
func (p *pass) status(seen *rules.Seen, s *rules.State) *kserve.Status {
	was := &p.object.Status
	ingress := rules.Condition{Type: kserve.ConditionIngressReady, Is: rules.True}
	switch {
	case p.taken != "":
		ingress.Is, ingress.Reason, ingress.Message = rules.False, "NameTaken", p.taken
	case p.mem.route.why != "":
		ingress.Is, ingress.Reason, ingress.Message = rules.False, "NoRoute", p.mem.route.why
	}
	stopped := rules.Condition{Type: kserve.ConditionStopped, Is: rules.False}
	if seen.Service.Stopped {
		stopped.Is = rules.True
	}
	url := objects.URL(p.object.Name, p.object.Namespace, p.o.Domain)
	outside := url
	if p.o.Outside.Way != "" && !p.written.Hidden() {
		outside = p.o.Outside.URL(p.object.Name, p.object.Namespace)
	}
	out := &kserve.Status{
		ObservedGeneration: p.object.Generation, DeploymentMode: "Standard", URL: outside, Address: &kserve.Address{URL: url},
		Components:  map[string]kserve.Component{kserve.ComponentPredictor: p.component(was.Components[kserve.ComponentPredictor])},
		ModelStatus: &kserve.ModelStatus{TransitionStatus: s.Transition, States: &kserve.ModelStates{ActiveModelState: s.Active, TargetModelState: s.Target}, Copies: &kserve.ModelCopies{FailedCopies: seen.Failed, TotalCopies: len(p.all())}},
	}
	if r := p.runtime; r != nil && r.Cluster {
		out.ClusterServingRuntimeName = r.Name
	} else if r != nil {
		out.ServingRuntimeName = r.Name
	}
	parts := []rules.Condition{s.Predictor, ingress}
	if s.Transformer != nil {
		parts = []rules.Condition{s.Predictor, *s.Transformer, ingress}
		out.Components[kserve.ComponentTransformer] = p.transformerComponent()
	}
	conditions := append([]rules.Condition{rules.Ready(parts...), stopped, s.Queued}, parts...)
	if s.Canary != nil {
		conditions = append(conditions, *s.Canary)
	}
	for _, c := range conditions {
		out.Conditions = append(out.Conditions, p.stamped(was, c))
	}
	slices.SortFunc(out.Conditions, func(a, b kserve.Condition) int { return cmp.Compare(a.Type, b.Type) })
	if f := s.Failure; f != nil {
		now := metav1.NewTime(p.now()).Rfc3339Copy()
		out.ModelStatus.LastFailureInfo = &kserve.FailureInfo{Location: seen.Pod, Reason: f.Reason, Message: f.Message, Time: &now}
		if m := was.ModelStatus; m != nil && m.LastFailureInfo != nil && m.LastFailureInfo.Message == f.Message {
			out.ModelStatus.LastFailureInfo.Time = m.LastFailureInfo.Time
		}
	}
	return out
}

// component is what the service says of its predictor.
func (p *pass) component(was kserve.Component) kserve.Component {
	out := kserve.Component{
		URL:                   objects.URL(objects.ChildName(p.object.Name), p.object.Namespace, p.o.Domain),
		LatestCreatedRevision: cmp.Or(p.revision(), was.LatestCreatedRevision), LatestReadyRevision: p.readyRevision(was.LatestReadyRevision),
	}
	out.Traffic = p.shares()
	for i, r := range rules.RolledOut(p.revisions) {
		switch i {
		case 0:
			out.LatestRolledoutRevision = r.Name
		case 1:
			out.PreviousRolledoutRevision = r.Name
		}
	}
	return out
}

// stamped is a condition with the time since which it is what it is.
func (p *pass) stamped(was *kserve.Status, c rules.Condition) kserve.Condition {
	out := kserve.Condition{Type: c.Type, Status: corev1.ConditionStatus(c.Is), Reason: c.Reason, Message: c.Message, LastTransitionTime: metav1.NewTime(p.now()).Rfc3339Copy()}
	if c.Type == kserve.ConditionGPUQueued || c.Type == kserve.ConditionCanary || c.Type == kserve.ConditionStopped {
		out.Severity = "Info"
	}
	if old := was.Condition(c.Type); old != nil && old.Status == out.Status {
		out.LastTransitionTime = old.LastTransitionTime
	}
	return out
}
