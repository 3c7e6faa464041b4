package nodeindex

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/state"
)

// sweepEvery is how long the view may be behind the NodeInfos of nodes that
// this scheduler has not changed itself. Nothing depends on it: what is chosen is
// checked on the NodeInfo of the node.
const sweepEvery = 20 * time.Millisecond

// index keeps the view. Its mu is taken before State.Mu.
type index struct {
	Mu   sync.Mutex
	View *View
}

// Update brings the view to the state of the scheduler's nodes, with mu held:
// if force is set, if something is known to have changed, or if the last time is
// long ago. The view is made again where nodes have come or gone.
func (s *index) Update(log klog.Logger, d *state.State, all []fwk.NodeInfo, force bool) error {
	touched, now := d.TakeStale(), time.Now()
	if s.View != nil && !force && len(touched) == 0 && len(all) == len(s.View.listed) && now.Sub(s.View.swept) < sweepEvery {
		return nil
	}
	first := s.View == nil
	for again := false; ; again = true {
		if s.View == nil || again || !s.View.lists(all) {
			w, err := newView(all, s.View)
			if err != nil {
				s.View = nil
				return err
			}
			w.quota = d.Quota
			s.View = w
			d.Prune(func(name string) bool { return w.ByName[name] != nil })
		}
		if s.View.sweep(log, d, all, touched) || again {
			if s.View.swept = now; first {
				s.View.learn(all)
			}
			return nil
		}
	}
}

// Prefer brings one node of the view to what info shows, with mu held, and
// names the devices there that the placement policy chooses for a pod. at is nil
// where there is no view, named where the policy has nothing to say.
func (s *index) Prefer(log klog.Logger, d *state.State, info fwk.NodeInfo, pod *v1.Pod, w *state.Request) (at *node, named map[string][]sharing.Named) {
	if s.View == nil {
		return nil, nil
	}
	if at = s.View.ByName[info.Node().Name]; at == nil {
		return nil, nil
	}
	if at.Generation != info.GetGeneration() && !s.View.refresh(log, d, at, info) {
		s.View = nil // made again for the next pod
		return nil, nil
	}
	if !w.Devices || w.Hold != nil || !request.OneKind(w.Parts) || at.Foreign || at.Odd {
		return at, nil
	}
	r, _, err := s.View.Request(pod, w)
	if r.Class = 0; err != nil || placement.Fit(s.View.Snapshot, at.Index, &r) != placement.Fits {
		return at, nil
	}
	devices, ok := s.View.Named(&at.Node, placement.On(s.View.Index, at.Index, &r).Devices)
	if !ok {
		return at, nil
	}
	if named, ok = sharing.NameDevices(w.Parts, devices); !ok {
		return at, nil
	}
	return at, named
}
