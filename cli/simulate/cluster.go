package simulate

import (
	"context"
	"fmt"
	"slices"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/snapshot"
	"berth.dev/berth/sim"
)

// fromCluster reads nodes, what runs on them and, as what comes, the pods of a
// live cluster. Nothing is written to it.
func (s *simulateCommand) fromCluster(ctx context.Context) (simulateInput, error) {
	var in simulateInput
	c, err := s.cluster.Connect(s.o)
	if err != nil {
		return in, err
	}
	nodes, pods, err := c.NodesAndPods(ctx, "")
	if err != nil {
		return in, err
	}
	live, err := snapshot.Read(nodes, pods)
	if err != nil {
		return in, err
	}
	in.nodes, in.from = live.Nodes, "pods of "+c.Name
	if len(live.Closed) > 0 {
		in.notes = append(in.notes, "omitted: "+term.FitList("", live.Closed, term.PlainWidth))
	}
	if !s.empty {
		in.held = live.Held
		sum := int64(0)
		for i := range in.held {
			sum += in.held[i].TotalMilli()
		}
		in.notes = append(in.notes, fmt.Sprintf("already placed: %d pods, which use %s GPUs and stay", len(in.held), term.MilliText(sum)))
	}
	for i := range live.Asks {
		in.pods = append(in.pods, podOf(&live.Asks[i]))
	}
	if s.pods == "" && !slices.ContainsFunc(in.pods, func(p sim.Pod) bool { return p.GPUs > 0 }) {
		return in, fmt.Errorf("no pod of %s requests a GPU, so the mix of pods is unknown; set --pods FILE.csv", c.Name)
	}
	return in, nil
}

// podOf is a pod of a cluster as one of a trace, without times.
func podOf(a *snapshot.Ask) sim.Pod {
	r := &a.Request
	return sim.Pod{
		Name: a.Name, CPUMilli: r.CPUMilli, MemoryBytes: r.MemoryBytes, GPUs: int(r.GPUs),
		MilliGPU: int(r.MilliGPU), GPUMemoryBytes: r.GPUMemoryBytes, Profile: r.Profile, Models: a.Products,
	}
}
