package devices

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
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// PreFilter names the one node that a pod goes to: the one where devices are
// held for it, else the one that the placement index likes best. The other
// plugins check that node. Pods that need what the index does not know are left
// to Filter and Score on all nodes, and so are most that ask for no GPU: see
// passing.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	began := time.Now()
	parts, h := request.Parts(pod), p.desk.holdOf(pod.UID)
	if len(parts) == 0 && h == nil {
		if node := p.passing(ctx, state, pod, nodes); node != "" {
			return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
		}
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if err := request.Check(pod); err != nil {
		p.desk.waits.note(pod.UID, queue.Invalid)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if h == nil {
		p.desk.gate.wait(ctx)
		began = time.Now()
	}
	w := newWanted(pod, parts)
	state.Write(wantedKey, w)
	if h != nil {
		w.hold, w.node = h, h.node
		decided(resultHeld, "", began)
		return &fwk.PreFilterResult{NodeNames: sets.New(h.node)}, nil
	}
	f := p.narrow(ctx, pod, w, nodes)
	result, status := p.answer(pod, w, &f)
	decided(f.result, f.reason, began)
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
func (p *Plugin) narrow(ctx context.Context, pod *v1.Pod, w *wanted, nodes []fwk.NodeInfo) finding {
	log, s := klog.FromContext(ctx), &p.desk.score
	s.mu.Lock()
	defer s.mu.Unlock()
	retry, again := p.desk.takeWide(pod.UID) || p.desk.doubted(pod.UID), p.desk.waiting.knows(pod.UID)
	err := s.update(log, p.desk, nodes, false)
	var c *class
	if err == nil {
		w.request, c, err = s.world.request(pod, w)
	}
	if err != nil {
		log.Error(err, "The placement index cannot be used; every node is asked", "pod", klog.KObj(pod))
		return finding{result: resultWide}
	}
	if !retry && !again {
		s.world.index.Arrive(&w.request)
	}
	if retry || !w.simple {
		return finding{result: resultWide, only: p.whole(pod.UID, w)}
	}
	i, ok := s.world.index.Best(&w.request)
	if !ok {
		// What is known may be behind by a moment: look at all nodes before saying no.
		if err := s.update(log, p.desk, nodes, true); err == nil {
			if w.request, c, err = s.world.request(pod, w); err == nil {
				i, ok = s.world.index.Best(&w.request)
			}
		}
	}
	out := finding{key: lineKey(pod, w, &w.request)}
	switch {
	case ok:
		w.node = s.world.sites[i].object.Name
		out.result = resultNarrow
	case s.world == nil, c.others > 0:
		out.result = resultWide
	default:
		if !again {
			s.world.index.Refuse(&w.request)
		}
		out.result, out.counts = resultUnschedulable, s.world.index.Reasons(&w.request)
		out.reason = string(foremost(out.counts))
	}
	return out
}

// answer tells the framework, and the lines of those who wait. It holds no lock.
func (p *Plugin) answer(pod *v1.Pod, w *wanted, f *finding) (*fwk.PreFilterResult, *fwk.Status) {
	q := p.desk.waiting
	switch f.result {
	case resultUnschedulable:
		p.desk.waits.note(pod.UID, queue.Room)
		q.join(pod, f.key, f.counts)
		return nil, fwk.NewStatus(fwk.Unschedulable, w.explain(f.counts))
	case resultNarrow:
		if ahead := q.first(pod, f.key); ahead != nil {
			p.desk.waits.note(pod.UID, queue.Turn)
			q.yield(pod, f.key)
			w.yields = true
			f.result = resultWaiting
			return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("pod %s/%s asks for the same and comes first", ahead.Namespace, ahead.Name))
		}
		return &fwk.PreFilterResult{NodeNames: sets.New(w.node)}, nil
	}
	q.leave(pod.UID)
	if f.only != nil {
		return &fwk.PreFilterResult{NodeNames: f.only}, nil
	}
	return nil, nil
}

// whole gives the nodes with GPUs for a pod that asks for several, where others have
// shares, which come last; nil is every node: none has the GPUs, or the plugins have
// refused those that do. The world's lock must be held.
func (p *Plugin) whole(uid types.UID, w *wanted) sets.Set[string] {
	if p.desk.takeSharesToo(uid) || !w.request.Units || w.request.GPUs < 2 || w.request.SharesDo {
		return nil
	}
	s, last, out := p.desk.score.world.snapshot, false, sets.New[string]()
	for i, at := range p.desk.score.world.sites {
		if s.SharesLast(i, &w.request) {
			last = true
		} else if at.odd || placement.Fit(s, i, &w.request) == placement.Fits {
			out.Insert(at.object.Name)
		}
	}
	if w.whole = last && len(out) > 0; !w.whole {
		return nil
	}
	return out
}

// takeSharesToo says whether a pod is to be tried on nodes with shares, too, once.
func (d *desk) takeSharesToo(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	too := d.sharesToo[uid]
	delete(d.sharesToo, uid)
	return too
}

// takeWide says whether a pod is to be tried on all nodes now, once.
func (d *desk) takeWide(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wide[uid] {
		return false
	}
	delete(d.wide, uid)
	return true
}

// reserved notes that a pod for which no devices are chosen has its node.
func (d *desk) reserved(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spend(uid)
	delete(d.wide, uid)
}

// prefer brings one node of the world to what info shows, with mu held, and
// names the devices there that the placement policy chooses for a pod. at is nil
// where there is no world, named where the policy has nothing to say.
func (s *scorer) prefer(log klog.Logger, d *desk, info fwk.NodeInfo, pod *v1.Pod, w *wanted) (at *site, named map[string][]sharing.Named) {
	if s.world == nil {
		return nil, nil
	}
	if at = s.world.byName[info.Node().Name]; at == nil {
		return nil, nil
	}
	if at.generation != info.GetGeneration() && !s.world.refresh(log, d, at, info) {
		s.world = nil // made anew for the next pod
		return nil, nil
	}
	if !w.devices || w.hold != nil || !oneKind(w.parts) || at.foreign || at.odd {
		return at, nil
	}
	r, _, err := s.world.request(pod, w)
	if r.Class = 0; err != nil || placement.Fit(s.world.snapshot, at.index, &r) != placement.Fits {
		return at, nil
	}
	devices, ok := s.world.namesOf(at, placement.On(s.world.index, at.index, &r).Devices)
	if !ok {
		return at, nil
	}
	if named, ok = nameDevices(w.parts, devices); !ok {
		return at, nil
	}
	return at, named
}

// PostFilter tries a pod whose one node was refused by a Filter on all nodes, at
// once: the index does not know all that the plugins know. One that asks for several
// GPUs is tried on those with GPUs before those with shares.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	w, ok := wantedOf(state)
	if ok && w.yields {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable) // no filter refused its node, and there is room: it waits for its turn
	}
	if ok && (w.node != "" || w.whole) && w.hold == nil {
		p.desk.mu.Lock()
		p.desk.wide[pod.UID], p.desk.sharesToo[pod.UID] = true, w.whole
		p.desk.mu.Unlock()
		p.desk.waits.note(pod.UID, queue.Retry)
		p.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable) // nobody needs to make room yet
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}
