package evict

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube/request"
)

// Together evicts pods for a cause, all or none, and returns at once. None is evicted if a
// disruption budget keeps one, or if one is of a Job that would fail for it: then kept
// is called with the reason, on another goroutine.
func (e *Evictor) Together(ctx context.Context, h fwk.Handle, budgets *Budgets, cause Cause, pods []*v1.Pod, kept func(why string)) {
	e.Work.Go(func() {
		why := jobsKeep(ctx, h, pods)
		if why == "" {
			why = e.all(ctx, h, budgets, cause, pods, kept)
		}
		if why != "" {
			kept(why)
		}
	})
}

// all evicts pods if disruption budgets allow all of these evictions, or returns why not.
func (e *Evictor) all(ctx context.Context, h fwk.Handle, budgets *Budgets, why Cause, pods []*v1.Pod, kept func(why string)) string {
	pod, versions, err := budgets.Judge(e, pods)
	switch {
	case err != nil:
		return err.Error()
	case pod != nil:
		return fmt.Sprintf("a disruption budget keeps its pod %s", pod.Name)
	}
	victims := make([]*Victim, len(pods))
	for i, pod := range pods {
		victims[i] = &Victim{Pod: pod, Node: pod.Spec.NodeName, Budgets: versions[i]}
	}
	e.Evict(ctx, h, why, victims, func(err error) { kept(err.Error()) })
	return ""
}

// jobsKeep returns why pods must not be evicted for the Jobs that they are of; "" is that
// they may.
func jobsKeep(ctx context.Context, h fwk.Handle, pods []*v1.Pod) string {
	by, order := map[types.UID][]*v1.Pod{}, []*metav1.OwnerReference(nil)
	for _, pod := range pods {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "Job" {
			if by[owner.UID] == nil {
				order = append(order, owner)
			}
			by[owner.UID] = append(by[owner.UID], pod)
		}
	}
	for _, owner := range order {
		of := by[owner.UID]
		job, err := h.ClientSet().BatchV1().Jobs(of[0].Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && job.UID != owner.UID:
			return fmt.Sprintf("Job %s does not exist any longer", owner.Name)
		case err != nil:
			return fmt.Sprintf("Job %s cannot be read: %v", owner.Name, err)
		}
		if why := request.FailsJob(job, of); why != "" {
			return why
		}
	}
	return ""
}
