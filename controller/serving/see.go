package serving

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// condition returns the condition of a pod; the zero value is that it has none of the type.
func condition(pod *corev1.Pod, of corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == of {
			return c
		}
	}
	return corev1.PodCondition{}
}

// revisionOf is which revision a pod is of.
func revisionOf(pod *corev1.Pod) string { return pod.Annotations[api.AnnotationServingSpec] }

// rolling reports whether there are pods of another revision than the newest.
func (p *pass) rolling() bool { return older(p.pods, p.made) }

// older reports whether one of the pods is of another revision than what was made; nil is that nothing was.
func older(pods []*corev1.Pod, made *objects.Children) bool {
	return made != nil && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return revisionOf(pod) != made.Revision })
}

// waits returns what a pod of a revision waits for before it has a node, or why the Deployment cannot make one; "" is nothing.
func (p *pass) waits(revision string) string { return waiting(p.pods, p.existing, revision) }

// waiting is waits for the pods of a Deployment, which may be nil.
func waiting(pods []*corev1.Pod, d *appsv1.Deployment, revision string) string {
	for _, pod := range pods {
		if c := condition(pod, corev1.PodScheduled); revisionOf(pod) == revision && pod.Spec.NodeName == "" && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	if d != nil {
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				return c.Message
			}
		}
	}
	return ""
}

// see fills in what there is of the replicas.
func (p *pass) see(ctx context.Context, s *rules.Seen) {
	s.Ready = p.ready()
	if p.refused != "" {
		s.Waits = p.refused
	}
	if p.made == nil {
		return
	}
	s.Rolling = p.rolling() && s.Wanted > 0
	if s.Wanted > 0 {
		s.Leaves, s.Stay = p.leaves(), rules.Staying(p.replicas())
	}
	if s.Waits == "" {
		s.Waits = p.waits(p.made.Revision)
	}
	p.seeReplicas(ctx, s, p.pods, p.made)
}

// seeReplicas fills in what there is of the pods of a component.
func (p *pass) seeReplicas(ctx context.Context, s *rules.Seen, pods []*corev1.Pod, made *objects.Children) {
	for _, pod := range pods {
		if revisionOf(pod) != made.Revision {
			continue
		}
		if s.Updated++; condition(pod, corev1.PodReady).Status == corev1.ConditionTrue || pod.Spec.NodeName == "" {
			continue
		}
		starts, fault := p.starting(ctx, pod, made)
		if s.Starts == "" {
			s.Starts = starts
		}
		if fault != nil {
			if s.Failed++; s.Fault == nil {
				s.Fault, s.Pod = fault, pod.Name
			}
		}
	}
}

// starting says what a pod of a revision does that has a node before it is ready, and what is wrong with it.
func (p *pass) starting(ctx context.Context, pod *corev1.Pod, of *objects.Children) (string, *rules.Fault) {
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		switch {
		case c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
			continue
		case c.State.Running != nil:
			if t := c.LastTerminationState.Terminated; t != nil && t.ExitCode != 0 && t.Message != "" { // it is tried again
				return "", rules.FaultOf(&rules.Server{Fetch: t.Message, Model: of.Model})
			}
			return "downloading the model", nil
		}
		if fault := pulls(c); fault != nil {
			return "", fault
		}
		if t := ended(c); t != nil {
			return "", rules.FaultOf(&rules.Server{Fetch: cmp.Or(t.Message, fmt.Sprintf("%s ended with exit code %d", c.Name, t.ExitCode)), Model: of.Model})
		}
		return "starting", nil
	}
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if fault := pulls(c); fault != nil {
			return "", fault
		}
		if c.Name != objects.Container && len(pod.Status.ContainerStatuses) > 1 {
			continue
		}
		if t := ended(c); t != nil {
			fault := p.hear(ctx, pod, of, c.Name, c.State.Terminated == nil)
			if fault == nil {
				fault = &rules.Fault{Reason: rules.FaultUnhealthy, Message: fmt.Sprintf("the server has ended with exit code %d (%s) and is started again; `berth service logs %s` shows why", t.ExitCode, t.Reason, p.object.Name)}
			}
			return "", fault
		}
		if r := c.State.Running; r != nil {
			wait := r.StartedAt.Add(rules.LoadPatience).Sub(p.now())
			if p.later(max(wait, time.Millisecond)); wait > 0 {
				return loads(of), nil
			}
			return loads(of), p.hear(ctx, pod, of, c.Name, false)
		}
	}
	return "the node starts it", nil
}

// loads is what the server of a component does before it is ready.
func loads(of *objects.Children) string {
	if of.Component == kserve.ComponentTransformer {
		return "starting"
	}
	return "loading the model"
}

// pulls is the fault of a container whose image cannot be had; nil is that this is not known.
func pulls(c *corev1.ContainerStatus) *rules.Fault {
	w := c.State.Waiting
	if w == nil {
		return nil
	}
	switch w.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError":
		return rules.Unstarted(c.Name, w.Reason, w.Message, c.Name == objects.Initializer)
	}
	return nil
}

// ended is how a container has ended that is started again and again; nil is that it has not.
func ended(c *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	switch {
	case c.State.Terminated != nil:
		return c.State.Terminated
	case c.State.Waiting != nil && c.LastTerminationState.Terminated != nil:
		return c.LastTerminationState.Terminated
	}
	return nil
}

// hear reads what a server has said of its model, not too often.
func (p *pass) hear(ctx context.Context, pod *corev1.Pod, of *objects.Children, container string, before bool) *rules.Fault {
	was, now := p.mem.heard[pod.UID], p.now()
	if since := now.Sub(was.at); !was.at.IsZero() && since < logAgain {
		p.later(logAgain - since)
		return was.fault
	}
	p.later(logAgain)
	if p.logs == nil {
		return nil
	}
	lines, err := p.logs(ctx, pod, container, before)
	if err != nil {
		return was.fault // the node may be gone; it is asked again
	}
	fault := rules.FaultOf(&rules.Server{Type: of.ServerType, Model: of.Model, Lines: lines})
	p.mem.heard[pod.UID] = heard{now, fault}
	return fault
}
