package nodeindex

import (
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/scheduler/state"
)

// nodesNow lists the nodes as they are now; see NodesFrom.
var nodesNow atomic.Pointer[func() ([]fwk.NodeInfo, error)] //nolint:gochecknoglobals // metrics are of the process

// NodesFrom tells the metrics of this process where the nodes are as they are
// now. The scheduler's own snapshot is of its last attempt, so that without this
// devices that were freed since then count as held. list must be safe to call
// while the scheduler runs.
func NodesFrom(list func() ([]fwk.NodeInfo, error)) { nodesNow.Store(&list) }

// gpuCount is the nodes as metrics count them, apart from what the scheduler
// decides by: it may be ahead of the scheduling cycle, which must not see that.
// It reads again only nodes that have changed since the last time, and keeps of
// them no more than what is free.
type gpuCount struct {
	mu    sync.Mutex
	state *state.State
	score index
}

// take counts the cluster: GPUs by state, and how fragmented what is free is for
// the requests that main has learned. It says no where there is nothing to count.
func (c *gpuCount) take(main *index) (states cluster.States, fragmentation float64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := nodesNow.Load()
	if list == nil {
		return states, 0, false
	}
	nodes, err := (*list)()
	if err != nil || len(nodes) == 0 {
		return states, 0, false
	}
	if c.state == nil {
		c.state = state.NewState()
	}
	if c.score.Update(klog.Background(), c.state, nodes, true) != nil {
		return states, 0, false
	}
	clear(c.state.Nodes)
	for _, at := range c.score.View.Nodes {
		at.From = nil
	}
	mix := placement.NewMix()
	main.Mu.Lock()
	if main.View != nil {
		mix = translate(main.View, c.score.View)
	}
	main.Mu.Unlock()
	s := c.score.View.Snapshot
	return s.States(), placement.Fragmentation(s, mix), true
}
