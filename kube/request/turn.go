package request

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/training"
)

// TicketOf is what decides when it is the turn of a pod, seen alone: as if it were
// of no gang.
func TicketOf(pod *v1.Pod) queue.Ticket {
	return queue.Ticket{Age: AgeOf(pod), Priority: Priority(pod)}
}

// AgeOf says when a pod came.
func AgeOf(pod *v1.Pod) queue.Age {
	return queue.Age{Created: pod.CreationTimestamp.Time, UID: string(pod.UID)}
}

// TurnOf is TicketOf a pod that may belong to a training job, which owners finds: the pod is as old as the job.
// nil finds none.
func TurnOf(pod *v1.Pod, owners Owners) queue.Ticket {
	t := TicketOf(pod)
	t.Age = t.Age.AsOldAs(jobSince(pod, owners))
	return t
}

// jobSince returns when the training job that controls a pod was created; zero is that there is none, or that it is not
// known.
func jobSince(pod *v1.Pod, owners Owners) time.Time {
	if _, _, ok := training.OwnerOf(pod); !ok || owners == nil {
		return time.Time{}
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	job := owners(pod.Namespace, ref)
	if job == nil || job.GetUID() != ref.UID {
		return time.Time{}
	}
	return job.GetCreationTimestamp().Time
}

// line is the pods of one gang, for their tickets.
type line struct {
	oldest  queue.Age
	bound   int
	waiting []queue.Age
}

// Tickets returns what decides when it is the turn of each of pods, as the scheduler
// orders them: pods of a gang are as old as the oldest of them, or as the training job that they belong to, and those
// beyond its minimum come after pods that are needed. Where the pods do not say the minimum, all
// count as needed. owners finds the jobs; nil finds none.
func Tickets(pods []*v1.Pod, owners Owners) func(*v1.Pod) queue.Ticket {
	gangs := map[string]*line{}
	for _, p := range pods {
		ref, err := GangOf(p)
		if ref == nil || err != nil || p.DeletionTimestamp != nil || Ended(p) {
			continue
		}
		g, age := gangs[ref.Key], TurnOf(p, owners).Age
		if g == nil {
			g = &line{oldest: age}
			gangs[ref.Key] = g
		}
		if age.Compare(g.oldest) < 0 {
			g.oldest = age
		}
		if p.Spec.NodeName != "" {
			g.bound++
		} else {
			g.waiting = append(g.waiting, AgeOf(p))
		}
	}
	for _, g := range gangs {
		slices.SortFunc(g.waiting, queue.Age.Compare)
	}
	return func(p *v1.Pod) queue.Ticket {
		t := TicketOf(p)
		ref, err := GangOf(p)
		if ref == nil || err != nil || gangs[ref.Key] == nil {
			return t
		}
		g := gangs[ref.Key]
		t.Gang, t.Partial = g.oldest, g.bound > 0
		if ref.MinCount > 0 && g.bound >= ref.MinCount {
			before, _ := slices.BinarySearchFunc(g.waiting, t.Age, queue.Age.Compare)
			t.Partial, t.Over = false, int64(g.bound-ref.MinCount+before+1)*max(1, FreedMilli(p))
		}
		return t
	}
}

// FreedMilli returns how many milli-GPUs become free when a pod ends, at most: of
// one that asks for other devices than whole GPUs, more than any node has.
func FreedMilli(p *v1.Pod) int64 {
	sum := int64(0)
	for resource, n := range Of(p) {
		if resource != api.ResourceGPU {
			return 1 << 40
		}
		sum += n * cluster.Whole
	}
	return sum
}

// FewestFirst returns pods in the order of FreedMilli, those that ask for no GPU first. Pods of a gang are
// admitted in this order: those that must start together need as little quota as they can.
func FewestFirst(pods []*v1.Pod) []*v1.Pod {
	asks := make(map[*v1.Pod]int64, len(pods))
	for _, p := range pods {
		asks[p] = FreedMilli(p)
	}
	by := func(a, b *v1.Pod) int { return cmp.Compare(asks[a], asks[b]) }
	if slices.IsSortedFunc(pods, by) {
		return pods
	}
	out := slices.Clone(pods)
	slices.SortStableFunc(out, by)
	return out
}

// Priority returns the priority of a pod; 0 if it has none.
func Priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// NeverPreempts reports whether a pod waits rather than evict others: its
// preemptionPolicy is Never.
func NeverPreempts(p *v1.Pod) bool {
	return p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == v1.PreemptNever
}

// Ended reports whether the containers of a pod have ended for good.
func Ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}
