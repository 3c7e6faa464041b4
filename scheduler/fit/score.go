package fit

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/placement"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/state"
)

// PreScore brings the scores' view of the nodes up to date.
func (p *Plugin) PreScore(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	w, ok := state.RequestOf(cycle)
	switch {
	case len(nodes) < 2:
		return fwk.NewStatus(fwk.Skip)
	case othersOf(cycle) != nil:
		return nil
	case !ok || !w.Devices:
		return fwk.NewStatus(fwk.Skip)
	}
	all, err := p.Handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("list the nodes: %w", err))
	}
	s := &p.Cluster.Index
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if err := s.Update(klog.FromContext(ctx), p.Cluster.State, all, true); err != nil {
		return fwk.NewStatus(fwk.Skip)
	}
	if w.Request, _, err = s.View.Request(pod, w); err != nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score says how little a node's GPUs are fragmented by the pod: see
// placement.Berth. A node that has no GPUs, or whose devices are of another form
// than the request, scores 0.
func (p *Plugin) Score(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	w, ok := state.RequestOf(cycle)
	s := &p.Cluster.Index
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.View == nil || s.View.ByName[info.Node().Name] == nil {
		return 0, nil
	}
	if b := othersOf(cycle); b != nil {
		return b.score(s.View, s.View.ByName[info.Node().Name].Index), nil
	}
	if !ok {
		return 0, nil
	}
	score, _ := placement.ScoreOn(s.View.Index, s.View.ByName[info.Node().Name].Index, &w.Request, nodeindex.StayOf(pod))
	return int64(score), nil
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
			scores[i].Score = fwk.MaxScore
			continue
		}
		scores[i].Score = int64(float64(scores[i].Score-low) / float64(high-low) * float64(fwk.MaxScore))
	}
	return nil
}
