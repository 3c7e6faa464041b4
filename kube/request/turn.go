package request

import (
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/queue"
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

// Tickets returns what decides when it is the turn of each of pods, as the scheduler
// orders them: pods of a gang are as old as the oldest of them.
func Tickets(pods []*v1.Pod) func(*v1.Pod) queue.Ticket {
	type gang struct {
		oldest queue.Age
		bound  bool
	}
	gangs := map[string]*gang{}
	for _, p := range pods {
		ref, err := GangOf(p)
		if ref == nil || err != nil || p.DeletionTimestamp != nil || p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded {
			continue
		}
		g := gangs[ref.Key]
		if g == nil {
			g = &gang{oldest: AgeOf(p)}
			gangs[ref.Key] = g
		}
		if age := AgeOf(p); age.Compare(g.oldest) < 0 {
			g.oldest = age
		}
		g.bound = g.bound || p.Spec.NodeName != ""
	}
	return func(p *v1.Pod) queue.Ticket {
		t := TicketOf(p)
		if ref, err := GangOf(p); ref != nil && err == nil && gangs[ref.Key] != nil {
			t.Gang, t.Partial = gangs[ref.Key].oldest, gangs[ref.Key].bound
		}
		return t
	}
}

// Priority returns the priority of a pod; 0 if it has none.
func Priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}
