package queue

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
)

// Room says which notebooks stand in the way of workloads that wait for quota. It knows what the
// controller of Queues of the same process has counted; without one it knows of no queue.
// It is safe for concurrent use.
type Room struct {
	mu      sync.Mutex
	tally   *tally // nil: there are no Queues
	changed chan struct{}
}

// NewRoom returns a Room that knows of no queue yet.
func NewRoom() *Room { return &Room{changed: make(chan struct{}, 1)} }

// Changed gets a value when what Room says may be different, if some queue has notebooks give
// way.
func (r *Room) Changed() <-chan struct{} { return r.changed }

// set has the Room say what a tally says. The tally changes under mu alone.
func (r *Room) set(t *tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	had := r.tally
	if r.tally = t; !had.gives() && !t.gives() {
		return
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// gives reports whether some queue has idle notebooks give way.
func (t *tally) gives() bool {
	if t == nil {
		return false
	}
	for _, q := range t.queues {
		if q.Spec.IdleNotebooks == v1alpha1.IdleGiveWay {
			return true
		}
	}
	return false
}

// GivesWay reports whether the queue that a pod enters has idle notebooks give way.
func (r *Room) GivesWay(pod *corev1.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tally == nil || r.tally.members == nil {
		return false
	}
	q := r.tally.queues[r.tally.members.QueueOf(pod, r.tally.namespaces[pod.Namespace])]
	return q != nil && q.Spec.IdleNotebooks == v1alpha1.IdleGiveWay
}

// Way is a workload that a notebook is to give way to.
type Way struct {
	Workload string // as Stands knows it
	Why      string // a clause that names its queue, and neither the workload nor its user
}

// Ways returns to which workload each of some pods gives way, by UID: pods of idle notebooks, the one
// that goes first first. Waiting pods that leave accepts do not count as waiting.
func (r *Room) Ways(idle []*corev1.Pod, leave func(*corev1.Pod) bool) map[string]Way {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tally == nil || r.tally.book == nil || len(idle) == 0 {
		return nil
	}
	ids := make([]string, len(idle))
	for i, p := range idle {
		ids[i] = string(p.UID)
	}
	out := map[string]Way{}
	for _, w := range r.tally.book.GiveWay(r.tally.waiting(leave), ids) {
		for _, id := range w.Pods {
			out[id] = Way{w.ID, fmt.Sprintf("a workload of queue %s waits for %s", w.Queue, gpus(&w.Workload))}
		}
	}
	return out
}

// gpus is how many GPUs a workload asks for, in words.
func gpus(w *quota.Workload) string {
	parts := int64(0)
	for _, p := range w.Pods {
		for _, piece := range p.Pieces {
			parts += piece.Parts
		}
	}
	if text := quota.Text(parts); text != "1" {
		return text + " GPUs"
	}
	return "1 GPU"
}

// Stand is how it stands with a workload.
type Stand int

// The stands of a workload.
const (
	Unknown Stand = iota // no queue is counted yet
	Waits                // none of it has a node
	Runs                 // some of it has
	Gone                 // none of it exists
)

// Stands says how it stands with a workload that a notebook gave way to.
func (r *Room) Stands(workload string) Stand {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tally == nil || r.tally.book == nil {
		return Unknown
	}
	out := Gone
	if r.tally.suspended[workload] != nil {
		out = Waits
	}
	for _, e := range r.tally.pods {
		of := metav1.GetControllerOfNoCopy(e.pod) // of a Job that was resumed, and waited by its UID
		switch {
		case e.workload != workload && (of == nil || string(of.UID) != workload):
		case e.pod.Spec.NodeName != "":
			return Runs
		default:
			out = Waits
		}
	}
	return out
}
