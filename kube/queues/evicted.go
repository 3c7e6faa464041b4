package queues

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
)

// Evicted returns which workloads of a Queue were evicted to return quota, as its status says.
func Evicted(q *v1alpha1.Queue) []quota.Evicted {
	out := make([]quota.Evicted, 0, len(q.Status.Evictions))
	for _, e := range q.Status.Evictions {
		out = append(out, quota.Evicted{Owner: e.Owner, Queue: q.Name, By: e.By, Pods: int(e.Pods), Of: int(e.Of), Last: e.Last.Time})
	}
	return out
}

// EvictionsOf returns them as the status has them.
func EvictionsOf(list []quota.Evicted) []v1alpha1.QueueEvictions {
	out := make([]v1alpha1.QueueEvictions, 0, len(list))
	for _, e := range list {
		out = append(out, v1alpha1.QueueEvictions{Owner: e.Owner, By: e.By, Pods: int32(min(e.Pods, 1<<30)), Of: int32(min(e.Of, 1<<30)), Last: metav1.NewTime(e.Last)})
	}
	return out
}
