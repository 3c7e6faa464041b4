package devices_test

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// run schedules until nothing is left to do, and then checks that every gang has
// all it needs or nothing.
func (r *rig) run() {
	r.t.Helper()
	for steps := 0; ; steps++ {
		if steps > 10000 {
			r.t.Fatalf("the scheduler does not come to rest: %v active, %v tried, %v", r.active, r.tried, r.out)
		}
		r.drain()
		if r.settle() {
			continue
		}
		if len(r.active) == 0 {
			return
		}
		next := 0
		for i := range r.active {
			if r.gangs.Less(r.queued(r.active[i]), r.queued(r.active[next])) {
				next = i
			}
		}
		uid := r.active[next]
		r.active = slices.Delete(r.active, next, next+1)
		r.cycle(r.pods[uid])
	}
}

// queued is a pod in the queue. They all came at the same time.
type queued struct {
	fwk.QueuedPodInfo
	pod *v1.Pod
}

func (q queued) GetPodInfo() fwk.PodInfo { return podInfo{pod: q.pod} }
func (q queued) GetTimestamp() time.Time { return time.Unix(1e9, 0) }
func (r *rig) queued(uid types.UID) fwk.QueuedPodInfo {
	return queued{pod: r.pods[uid]}
}

// cycle is one scheduling cycle.
func (r *rig) cycle(pod *v1.Pod) {
	r.inside = pod.UID
	r.tried[pod.UID]++
	node, s, status := r.find(pod)
	r.drain()
	if status.IsSuccess() {
		r.inside = ""
		r.place(pod, node, s)
		r.drain()
		return
	}
	if r.post != nil {
		r.post(s, pod, status)
	} else if _, st := r.plans.PostFilter(r.t.Context(), s, pod, nil); st.Code() == fwk.Unschedulable {
		r.devs.PostFilter(r.t.Context(), s, pod, nil)
	}
	r.drain()
	r.inside = ""
	r.back(pod.UID, status.Message())
}

// back puts a pod outside of the queue, or into it if it was activated meanwhile.
func (r *rig) back(uid types.UID, why string) {
	if r.pods[uid] == nil || r.pods[uid].Spec.NodeName != "" {
		return
	}
	if r.out[uid] = why; r.forced[uid] {
		delete(r.forced, uid)
		r.enqueue(uid)
	}
}

// find runs PreFilter and Filter.
func (r *rig) find(pod *v1.Pod) (string, *state, *fwk.Status) {
	s := &state{data: map[fwk.StateKey]fwk.StateData{}}
	left, status := r.plans.PreFilter(r.t.Context(), s, pod, r.list())
	if !status.IsSuccess() && !status.IsSkip() {
		return "", s, status
	}
	own, status := r.devs.PreFilter(r.t.Context(), s, pod, r.list())
	if !status.IsSuccess() && !status.IsSkip() {
		return "", s, status
	}
	left = left.Merge(own)
	last := fwk.NewStatus(fwk.Unschedulable, "no nodes")
	for _, n := range r.nodes {
		if !left.AllNodes() && !left.NodeNames.Has(n.node.Name) {
			continue
		}
		if r.refuse(pod, n.node.Name) {
			last = fwk.NewStatus(fwk.Unschedulable, "another filter")
			continue
		}
		if last = r.devs.Filter(r.t.Context(), s, pod, n); last.IsSuccess() {
			return n.node.Name, s, nil
		}
	}
	return "", s, last
}

// place assumes a pod, reserves for it and asks Permit.
func (r *rig) place(pod *v1.Pod, node string, s *state) {
	w := &waits{pod: pod, node: node, state: s}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	if status := r.devs.Reserve(r.t.Context(), s, pod, node); !status.IsSuccess() {
		r.lost(w, status.Message())
		return
	}
	r.enter(assumed, node)
	switch status, _ := r.gangs.Permit(r.t.Context(), s, pod, node); {
	case status.IsWait():
		r.permit[pod.UID] = w
	case !status.IsSuccess():
		r.lost(w, status.Message())
	default:
		r.finish(w)
	}
}

// finish binds a pod that may go.
func (r *rig) finish(w *waits) {
	status := r.devs.Bind(r.t.Context(), w.state, w.pod, w.node)
	if status.IsSkip() {
		err := r.bind(&v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: w.pod.Name, UID: w.pod.UID}, Target: v1.ObjectReference{Name: w.node}})
		if err != nil {
			r.lost(w, err.Error())
		}
		return
	}
	if !status.IsSuccess() {
		r.lost(w, status.Message())
	} else if r.boundTo != nil {
		r.boundTo(w.pod, w.node)
	}
}

// lost takes back what was reserved for a pod.
func (r *rig) lost(w *waits, why string) {
	r.leave(w.pod.UID, w.node)
	r.gangs.Unreserve(r.t.Context(), w.state, w.pod, w.node)
	r.devs.Unreserve(r.t.Context(), w.state, w.pod, w.node)
	r.back(w.pod.UID, why)
	r.happened(w.pod, nil)
}

// settle ends what waits in Permit and has its answer. It says whether anything
// did.
func (r *rig) settle() bool {
	for _, uid := range slices.Sorted(maps.Keys(r.permit)) {
		w := r.permit[uid]
		if w.answer == "" {
			continue
		}
		delete(r.permit, uid)
		if w.answer == "go" {
			r.finish(w)
		} else {
			r.lost(w, w.answer)
		}
		return true
	}
	return false
}
