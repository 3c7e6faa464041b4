package preempt

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/evict"
)

// GangEnded implements gang.Room.
func (x *Preemption) GangEnded(key string) { x.reservations.GangEnded(key) }

// EvictGang implements gang.Room. No pod is evicted if a disruption budget keeps one, or if
// one is of a Job that would fail for it.
func (x *Preemption) EvictGang(ctx context.Context, e *gang.Evict, pods []*v1.Pod, kept func(why string)) {
	if x.budgets == nil {
		kept("the scheduler's configuration has no plugin that evicts pods")
		return
	}
	x.Work.Go(func() {
		why := x.jobsKeep(ctx, pods)
		if why == "" {
			why = x.evictAll(ctx, e, pods, kept)
		}
		if why != "" {
			kept(why)
		}
	})
}

// evictAll evicts pods if disruption budgets allow all of these evictions, or returns why not.
func (x *Preemption) evictAll(ctx context.Context, e *gang.Evict, pods []*v1.Pod, kept func(why string)) string {
	pod, versions, err := x.budgets.Judge(x.Evictor, pods)
	switch {
	case err != nil:
		return err.Error()
	case pod != nil:
		return fmt.Sprintf("a disruption budget keeps its pod %s", pod.Name)
	}
	victims := make([]*evict.Victim, len(pods))
	for i, pod := range pods {
		victims[i] = &evict.Victim{Pod: pod, Node: pod.Spec.NodeName, Budgets: versions[i]}
	}
	x.Evict(ctx, x.p.Handle, evict.Cause{Gang: e.Name, Why: e.Why}, victims, func(err error) { kept(err.Error()) })
	return ""
}

// jobsKeep returns why pods must not be evicted for the Jobs that they are of; "" is that
// they may.
func (x *Preemption) jobsKeep(ctx context.Context, pods []*v1.Pod) string {
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
		job, err := x.p.Handle.ClientSet().BatchV1().Jobs(of[0].Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
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
