package devices

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube"
)

// PreScore brings the scores' view of the nodes that fit up to date, and tells
// the policy what has come.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	w, ok := wantedOf(state)
	if !ok || len(nodes) < 2 {
		return fwk.NewStatus(fwk.Skip)
	}
	all, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("list the nodes: %w", err))
	}
	s := &p.desk.score
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.update(klog.FromContext(ctx), p.desk, all, nodes); err != nil {
		return fwk.AsStatus(fmt.Errorf("score nodes: %w", err))
	}
	w.demand = kube.Demand(pod, s.world.common)
	if s.world.policy.Arrive(&w.demand) {
		s.world.epoch++
	}
	return nil
}

// Score says how little a node's GPUs are fragmented by the pod: see
// placement.Berth. A node that publishes no devices, or whose devices are of
// another form than the request, scores 0.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	w, ok := wantedOf(state)
	if !ok {
		return 0, nil
	}
	s := &p.desk.score
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.world.nodes[info.Node().Name]
	if !ok || at.index < 0 {
		return 0, nil
	}
	r := w.demand
	if !at.common {
		r = kube.Demand(pod, at.sharing)
	}
	return s.world.score(at, r), nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return normal{} }

// normal spreads scores over 0 to 100.
type normal struct{}

// NormalizeScore gives the best node 100 and the worst 0. Equal nodes all get
// 100, so that the other plugins decide.
func (normal) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	if len(scores) == 0 {
		return nil
	}
	low, high := scores[0].Score, scores[0].Score
	for _, s := range scores {
		low, high = min(low, s.Score), max(high, s.Score)
	}
	for i := range scores {
		if high == low {
			scores[i].Score = fwk.MaxNodeScore
			continue
		}
		scores[i].Score = int64(float64(scores[i].Score-low) / float64(high-low) * float64(fwk.MaxNodeScore))
	}
	return nil
}

// scorer keeps the placement policy and the Snapshot that it looks at.
type scorer struct {
	mu    sync.Mutex
	world *world
}

// update brings the Snapshot to the state of nodes. It is made anew from all
// where one of them has come, or has other GPUs than before.
func (s *scorer) update(log klog.Logger, d *desk, all, nodes []fwk.NodeInfo) error {
	if s.world == nil || slices.ContainsFunc(nodes, func(info fwk.NodeInfo) bool { return !s.world.knows(info) }) {
		w, err := newWorld(all)
		if err != nil {
			return err
		}
		if s.world != nil {
			w.policy.Learn(s.world.policy.Mix())
		}
		s.world, nodes = w, all
	}
	for _, info := range nodes {
		if at := s.world.nodes[info.Node().Name]; at != nil && at.generation != info.GetGeneration() {
			s.world.refresh(at, info, d.node(log, info))
		}
	}
	return nil
}
