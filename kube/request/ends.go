package request

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/queue"
)

// Ends returns when a pod ends at the latest, as it declares: see MostRunTime. It is zero for a pod that has
// not started, or declares no end that can be read.
func Ends(p *v1.Pod) time.Time {
	most := MostRunTime(p)
	if p.Status.StartTime == nil || most == 0 {
		return time.Time{}
	}
	return p.Status.StartTime.Add(most)
}

// EndsFrom is Ends of a pod on a node, which starts at a moment unless it is known when it began.
func EndsFrom(p *v1.Pod, starts time.Time) time.Time {
	most := MostRunTime(p)
	if most == 0 {
		return time.Time{}
	}
	if began := Began(p); !began.IsZero() {
		starts = began
	}
	return starts.Add(most)
}

// MostRunTime returns how long a pod runs at most, as it declares: by activeDeadlineSeconds, after which its kubelet ends it, or
// by its annotation. It is 0 for a pod that declares nothing that can be read.
func MostRunTime(p *v1.Pod) (most time.Duration) {
	if s := p.Spec.ActiveDeadlineSeconds; s != nil && *s > 0 {
		most = time.Duration(min(*s, int64(1<<31))) * time.Second
	}
	if d, err := queue.ReadRunTime(p.Annotations[api.AnnotationMaxRunTime]); err == nil && d > 0 && (most == 0 || d < most) {
		most = d
	}
	return most
}
