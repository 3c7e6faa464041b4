package notebook

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/explain"
)

// troubles are the reasons of Ready that get a Warning: a person has to do
// something.
var troubles = map[explain.Reason]bool{
	explain.ImageTrouble: true, explain.NoSuchGPU: true, explain.NoSuchNode: true, explain.MissingConfig: true, explain.Quota: true, explain.MissingVolume: true, explain.VolumeInUse: true,
	explain.MissingServiceAccount: true, explain.MissingPriorityClass: true, explain.Refused: true, explain.Crashing: true, explain.Invalid: true,
}

// tellChange tells as events what has changed between two statuses.
func (p *pass) tellChange(ctx context.Context, old, now *kubeflow.NotebookStatus) error {
	was, is := conditionOf(old, kubeflow.ConditionReady), conditionOf(now, kubeflow.ConditionReady)
	pod := ""
	if p.pod != nil {
		pod = string(p.pod.UID)
	}
	if was.Reason == string(explain.Stopped) && is.Reason != was.Reason {
		if err := p.tell(ctx, corev1.EventTypeNormal, "Started", p.started(), stamp(was.LastTransitionTime)); err != nil {
			return err
		}
	}
	queued, held := conditionOf(old, kubeflow.ConditionGPUQueued), conditionOf(now, kubeflow.ConditionGPUQueued)
	if queued.Reason != held.Reason || queued.Message != held.Message {
		if err := p.tellPlace(ctx, &queued, &held, pod); err != nil {
			return err
		}
	}
	if was.Reason == is.Reason {
		return nil
	}
	kind, key := corev1.EventTypeNormal, pod
	switch reason := explain.Reason(is.Reason); {
	case troubles[reason]:
		kind = corev1.EventTypeWarning
	case reason == explain.Stopped:
		key = p.nb.Annotations[api.AnnotationStopped] + stamp(is.LastTransitionTime)
	case reason == explain.Ready:
		key += stamp(is.LastTransitionTime)
	case reason == explain.Queued, reason == explain.Pulling:
	case reason == explain.Restarting && p.facts.Change != "":
		key += p.made.want.Mark
	default:
		return nil
	}
	return p.tell(ctx, kind, is.Reason, is.Message, key)
}

// tellPlace tells of a pod that has got its node, and of a change that waits.
func (p *pass) tellPlace(ctx context.Context, was, is *kubeflow.NotebookCondition, pod string) error {
	switch {
	case is.Reason == explain.QueuedChange && p.facts.Waits != "" && was.Message != is.Message:
		return p.tell(ctx, corev1.EventTypeWarning, "ChangeWaits", "the notebook keeps running unchanged: "+p.facts.Waits, pod)
	case p.pod != nil && p.pod.Spec.NodeName != "" && (is.Reason == explain.QueuedBound || is.Reason == explain.QueuedNotAsked) && was.Reason != explain.QueuedChange:
		return p.tell(ctx, corev1.EventTypeNormal, "Bound", "bound to node "+p.pod.Spec.NodeName+devices(p.pod), pod)
	}
	return nil
}

// started says what a notebook that was stopped has kept.
func (p *pass) started() string {
	if len(p.facts.Claims) == 0 {
		return "restarted without a PersistentVolumeClaim: earlier files are lost"
	}
	return "restarted with PersistentVolumeClaim " + strings.Join(p.facts.Claims, ", ") + "; the contents of memory and of other directories are lost"
}

func conditionOf(s *kubeflow.NotebookStatus, kind string) kubeflow.NotebookCondition {
	if c := s.Condition(kind); c != nil {
		return *c
	}
	return kubeflow.NotebookCondition{}
}

// retell tells warnings about the StatefulSet and the pod again as the notebook's,
// each once, as those who look at notebooks look there.
func (p *pass) retell(ctx context.Context) error {
	var kept map[types.UID]bool // those that are gone need no memory
	for i := range p.events {
		e := &p.events[i]
		if e.Type != corev1.EventTypeWarning {
			continue // what an autoscaler says is in the status
		}
		if kept == nil {
			kept = map[types.UID]bool{}
		}
		kept[e.UID] = true
		if p.mem.retold[e.UID] {
			continue
		}
		text := fmt.Sprintf("Reissued from %s/%s: %s", strings.ToLower(e.InvolvedObject.Kind), e.InvolvedObject.Name, e.Message)
		if err := p.tellAs(ctx, corev1.EventTypeWarning, e.Reason, text, "reissued", string(e.UID)); err != nil {
			return err
		}
	}
	p.mem.retold = kept
	return p.tellEvicted(ctx)
}

// tellEvicted tells once that the notebook's pod goes for another, and for which, or to return
// quota, as the scheduler has said in the pod's status.
func (p *pass) tellEvicted(ctx context.Context) error {
	if p.facts.Pod == nil || p.mem.evicted == p.pod.UID {
		return nil
	}
	how, reason, why := p.facts.Pod.Evicted()
	if how == "" {
		return nil
	}
	text := fmt.Sprintf("pod %s on node %s (%s); the notebook is queued again and keeps its volumes", how, p.pod.Spec.NodeName, why)
	if err := p.tell(ctx, corev1.EventTypeWarning, reason, text, string(p.pod.UID)); err != nil {
		return err
	}
	p.mem.evicted = p.pod.UID
	return nil
}

// tell makes an event about the notebook. key says, with reason and message, which
// one it is: the same is not made twice while the API server keeps it.
func (p *pass) tell(ctx context.Context, kind, reason, message, key string) error {
	return p.tellAs(ctx, kind, reason, message, message, key)
}

func (p *pass) tellAs(ctx context.Context, kind, reason, message, what, key string) error {
	id, err := hash([]string{string(p.nb.UID), reason, what, key})
	if err != nil {
		return err
	}
	name := types.NamespacedName{Namespace: p.nb.Namespace, Name: p.nb.Name + "." + id}
	if kind == corev1.EventTypeWarning && p.client.Get(ctx, name, &corev1.Event{}) == nil {
		return nil // the cache has warnings
	}
	now := metav1.NewTime(p.now())
	err = p.client.Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kubeflow.GroupVersion.String(), Kind: kubeflow.Kind, Namespace: p.nb.Namespace, Name: p.nb.Name, UID: p.nb.UID,
			ResourceVersion: p.nb.ResourceVersion,
		},
		Type: kind, Reason: reason, Message: clip(message), FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: Name}, ReportingController: Name,
	}, owner)
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil // told before, or its namespace is going, or takes none
	}
	return err
}

// stamp is a time as text that is the same before and after it was stored.
func stamp(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// clip cuts a message to what an event takes.
func clip(s string) string {
	const most = 1024
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-3], "") + "..."
}
