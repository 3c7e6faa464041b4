package queue

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// Waits is what the plugins of one scheduler say of pods that they refuse, until the
// pods are tried again. The framework has words for it alone; the condition of a
// pod must also say whether a new node would help.
type Waits struct {
	mu    sync.Mutex
	noted map[types.UID]queue.Wait
	most  func() (gpus int64, declared bool) // nil: nothing is known of pools
	// Failed is called with each pod that was tried and got no node, after its condition
	// is written.
	Failed func(*v1.Pod)
}

// NewWaits returns Waits of no pod.
func NewWaits() *Waits { return &Waits{noted: map[types.UID]queue.Wait{}, Failed: func(*v1.Pod) {}} }

// Offers sets how to find out how many GPUs the largest node has, or a new one of a
// declared pool, and whether pools are declared at all. most must be quick. Offers
// must be called before the scheduler runs, at most once.
func (w *Waits) Offers(most func() (gpus int64, declared bool)) { w.most = most }

// Note keeps what a pod waits for.
func (w *Waits) Note(uid types.UID, is queue.Wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noted[uid] = is
}

// Clear forgets what was noted of a pod, which is tried again or gone.
func (w *Waits) Clear(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.noted, uid)
}

// Of decides what a refused pod waits for, from what else is known of it: see
// queue.Refused.
func (w *Waits) Of(pod *v1.Pod, r queue.Refused) queue.Wait {
	w.mu.Lock()
	r.Noted = w.noted[pod.UID]
	w.mu.Unlock()
	return w.Judge(pod, r)
}

// Judge decides what a refused pod waits for from r alone: see queue.Refused. It sets
// what the nodes and the declared pools offer.
func (w *Waits) Judge(pod *v1.Pod, r queue.Refused) queue.Wait {
	r.Offered, r.Declared = true, false
	if n, counted := request.Counted(pod); counted && w.most != nil && r.Noted.NodeHelps() {
		var gpus int64
		gpus, r.Declared = w.most()
		r.Offered = n <= gpus
	}
	return r.Wait()
}
