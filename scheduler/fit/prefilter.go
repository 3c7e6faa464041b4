package fit

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/filters"
	"berth.dev/berth/scheduler/nodeindex"
	schedulerqueue "berth.dev/berth/scheduler/queue"
	"berth.dev/berth/scheduler/state"
)

// PreFilter names the one node that a pod goes to: the one where devices are
// held for it, else the one that the placement index likes best. The other
// plugins check that node. Pods that need what the index does not know are left
// to Filter and Score on all nodes, and so are most that ask for no GPU: see
// passing.
func (p *Plugin) PreFilter(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if filters.Active(cycle) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	began := time.Now()
	parts, h := request.Parts(pod), p.Cluster.HoldOf(pod.UID)
	if h != nil && h.Why == state.Reservation && alone(pod) { // there may be another place by now
		p.Cluster.Withdraw(pod.UID)
		h = nil
	}
	if len(parts) == 0 && h == nil {
		if node := p.passing(ctx, cycle, pod, nodes); node != "" {
			return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
		}
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if err := request.Check(pod); err != nil {
		p.Cluster.Waits.Note(pod.UID, queue.Invalid)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if h == nil {
		p.Cluster.Gate.Wait(ctx)
		began = time.Now()
	}
	w := state.NewRequest(pod, parts)
	w.Queue, w.Barred = p.Cluster.Quota.QueueOf(pod)
	w.Refused = state.QuotaRefused(cycle)
	w.Pools = p.Cluster.Quota.Allowed(pod.UID).Key()
	cycle.Write(state.RequestKey, w)
	if w.Refused { // room may be made for it: see preempt
		return nil, p.describe(ctx, pod, w, nodes)
	}
	if h != nil {
		w.Hold, w.Node = h, h.Node
		nodeindex.Decided(nodeindex.ResultHeld, "", began)
		return &fwk.PreFilterResult{NodeNames: sets.New(h.Node)}, nil
	}
	f := p.narrow(ctx, pod, w, nodes)
	result, status := p.answer(pod, w, &f)
	nodeindex.Decided(f.result, f.reason, began)
	return result, status
}

// finding is what the index says of a pod.
type finding struct {
	result string // as metrics name it
	reason string // why no node fits, for metrics
	key    string // of its line
	counts []placement.Count
	only   sets.Set[string] // of resultWide: the nodes to be asked; nil is every one
}

// narrow asks the index for the node of a pod, and sets w.node to it.
func (p *Plugin) narrow(ctx context.Context, pod *v1.Pod, w *state.Request, nodes []fwk.NodeInfo) finding {
	log, s := klog.FromContext(ctx), &p.Cluster.Index
	s.Mu.Lock()
	defer s.Mu.Unlock()
	retry, again := p.Cluster.TakeRetryAll(pod.UID) || p.Cluster.Doubted(pod.UID), p.Cluster.Waiting.Knows(pod.UID)
	err := s.Update(log, p.Cluster.State, nodes, false)
	var c *nodeindex.Class
	if err == nil {
		w.Request, c, err = s.View.Request(pod, w)
	}
	if err != nil {
		log.Error(err, "The placement index cannot be used; every node is asked", "pod", klog.KObj(pod))
		return finding{result: nodeindex.ResultWide}
	}
	if !retry && !again {
		s.View.Index.Arrive(&w.Request)
	}
	if retry || !w.Simple {
		return p.wide(pod, w)
	}
	out := finding{key: state.LineKey(pod, w, &w.Request)}
	i, ok := p.best(pod, w)
	if !ok {
		// What is known may be behind by a moment: look at all nodes before saying no.
		if err := s.Update(log, p.Cluster.State, nodes, true); err == nil {
			if w.Request, c, err = s.View.Request(pod, w); err == nil {
				i, ok = p.best(pod, w)
			}
		}
	}
	switch {
	case ok:
		w.Node = s.View.Nodes[i].Object.Name
		out.result = nodeindex.ResultNarrow
	case s.View == nil, c.Others > 0:
		out.result = nodeindex.ResultWide
	default:
		if !again {
			s.View.Index.Refuse(&w.Request)
		}
		out.result, out.counts = nodeindex.ResultUnschedulable, s.View.Index.Reasons(&w.Request)
		out.reason = string(placement.Foremost(out.counts))
	}
	return out
}

// best is the best node for a pod, of the first choice of its quotas that has room. It leaves all
// choices open where none has. The view's lock must be held.
func (p *Plugin) best(pod *v1.Pod, w *state.Request) (node int, ok bool) {
	v, q, stay := p.Cluster.Index.View, p.Cluster.Quota, nodeindex.StayOf(pod)
	n := q.Choices(pod)
	if n == 0 {
		return v.Index.BestFor(&w.Request, stay)
	}
	all := w.Request
	for k := range n {
		q.Choose(k, pod)
		var err error
		if w.Request, _, err = v.Request(pod, w); err != nil {
			break
		}
		if node, ok = v.Index.BestFor(&w.Request, stay); ok {
			return node, true
		}
	}
	q.Choose(-1, pod)
	w.Request = all
	return 0, false
}

// wide has every node asked that may be used by the pod's quotas. The view's lock must be held.
func (p *Plugin) wide(pod *v1.Pod, w *state.Request) finding {
	if q := p.Cluster.Quota; q.Choices(pod) > 0 {
		q.ChooseNext(pod.UID)
		if r, _, err := p.Cluster.Index.View.Request(pod, w); err == nil {
			w.Request = r
		}
	}
	return finding{result: nodeindex.ResultWide, only: p.whole(pod.UID, w)}
}

// answer tells the framework, and the lines of those who wait. It holds no lock.
func (p *Plugin) answer(pod *v1.Pod, w *state.Request, f *finding) (*fwk.PreFilterResult, *fwk.Status) {
	q := p.Cluster.Waiting
	switch f.result {
	case nodeindex.ResultUnschedulable:
		p.Cluster.Waits.Note(pod.UID, queue.Room)
		q.Join(pod, f.key, f.counts)
		p.Cluster.Still(pod)
		return nil, fwk.NewStatus(fwk.Unschedulable, w.Explain(f.counts))
	case nodeindex.ResultNarrow:
		if ahead := q.First(pod, f.key); ahead != nil {
			p.Cluster.Waits.Note(pod.UID, queue.Turn)
			q.Yield(pod, f.key)
			p.Cluster.Still(pod)
			w.Yields = true
			f.result = nodeindex.ResultWaiting
			return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("pod %s/%s asks for the same and comes first", ahead.Namespace, ahead.Name))
		}
		return &fwk.PreFilterResult{NodeNames: sets.New(w.Node)}, nil
	}
	q.Leave(pod.UID)
	if f.only != nil {
		return &fwk.PreFilterResult{NodeNames: f.only}, nil
	}
	return nil, nil
}

// whole gives the nodes with GPUs for a pod that asks for several, where others have
// shares, which come last; nil is every node: none has the GPUs, or the plugins have
// refused those that do. The view's lock must be held.
func (p *Plugin) whole(uid types.UID, w *state.Request) sets.Set[string] {
	if p.Cluster.TakeSharesToo(uid) || !w.Request.Units || w.Request.GPUs < 2 || w.Request.SharesDo {
		return nil
	}
	s, last, out := p.Cluster.Index.View.Snapshot, false, sets.New[string]()
	for i, at := range p.Cluster.Index.View.Nodes {
		if s.SharesLast(i, &w.Request) {
			last = true
		} else if at.Odd || placement.Fit(s, i, &w.Request) == placement.Fits {
			out.Insert(at.Object.Name)
		}
	}
	if w.Whole = last && len(out) > 0; !w.Whole {
		return nil
	}
	return out
}

// PostFilter tries a pod whose one node was refused by a Filter on all nodes, at
// once: the index does not know all that the plugins know. One that asks for several
// GPUs is tried on those with GPUs before those with shares.
func (p *Plugin) PostFilter(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	w, ok := state.RequestOf(cycle)
	if ok && w.Yields {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable) // no filter refused its node, and there is room: it waits for its turn
	}
	if ok && (w.Node != "" || w.Whole) && w.Hold == nil {
		p.Cluster.Mu.Lock()
		p.Cluster.RetryAll[pod.UID], p.Cluster.SharesToo[pod.UID] = true, w.Whole
		p.Cluster.Mu.Unlock()
		p.Cluster.Waits.Note(pod.UID, queue.Retry)
		schedulerqueue.Activate(p.Handle, klog.FromContext(ctx), pod)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable) // nobody needs to make room yet
	}
	if ok && w.Hold == nil && !w.Refused && p.Cluster.Quota.Failing(pod.UID) { // the next choice of its quotas
		p.Cluster.Mu.Lock()
		p.Cluster.RetryAll[pod.UID] = true
		p.Cluster.Mu.Unlock()
		p.Cluster.Waits.Note(pod.UID, queue.Retry)
		schedulerqueue.Activate(p.Handle, klog.FromContext(ctx), pod)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// alone reports whether a pod is of no gang: those of one are placed by its plan.
func alone(pod *v1.Pod) bool {
	g, err := request.GangOf(pod)
	return g == nil && err == nil
}

// describe has w describe what a pod asks for that is not to be placed now.
func (p *Plugin) describe(ctx context.Context, pod *v1.Pod, w *state.Request, nodes []fwk.NodeInfo) *fwk.Status {
	s := &p.Cluster.Index
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if err := s.Update(klog.FromContext(ctx), p.Cluster.State, nodes, false); err != nil {
		return fwk.AsStatus(err)
	}
	var err error
	if w.Request, _, err = s.View.Request(pod, w); err != nil {
		return fwk.AsStatus(err)
	}
	return nil
}
