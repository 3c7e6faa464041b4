package devices

import (
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube"
)

// world is the nodes that publish devices, as the placement policy wants them.
type world struct {
	snapshot *cluster.Snapshot
	policy   *placement.Berth
	index    *placement.Index
	nodes    map[string]*site
	common   gpu.Sharing // of the first node: by it, requests are told to the policy
	epoch    int         // scores of an earlier one are stale
}

// site is one node of a world.
type site struct {
	index             int
	generation        int64 // of the NodeInfo that was read last
	inventory, plugin string
	sharing           gpu.Sharing
	common            bool           // its replicas of nvidia.com/gpu are those of world.common
	starts            map[string]int // of MIG devices, by UUID
	held              []cluster.Placement
	scores            map[cluster.Request]int64 // as of epoch
	epoch             int
}

// score scores a node for r, once as long as neither the node nor the policy's
// tables change. Where r does not fit as one request it is 0.
func (w *world) score(at *site, r cluster.Request) int64 {
	if at.scores == nil || at.epoch != w.epoch {
		at.scores, at.epoch = map[cluster.Request]int64{}, w.epoch
	}
	score, known := at.scores[r]
	if !known {
		if placement.Fit(w.snapshot, at.index, &r) == placement.Fits {
			score = int64(w.policy.Score(w.snapshot, at.index, &r))
		}
		at.scores[r] = score
	}
	return score
}

// newWorld makes the world of nodes, with nothing held.
func newWorld(nodes []fwk.NodeInfo) (*world, error) {
	w := &world{nodes: map[string]*site{}}
	var specs []cluster.Spec
	for _, info := range nodes {
		n := info.Node()
		at := &site{generation: -1, inventory: n.Annotations[api.AnnotationInventory], plugin: n.Annotations[api.AnnotationPluginConfig], index: -1}
		w.nodes[n.Name] = at
		gpus, s, err := kube.GPUs(n)
		if err != nil || len(gpus) == 0 {
			continue
		}
		if len(specs) == 0 {
			w.common = s
		}
		at.index, at.sharing, at.starts = len(specs), s, map[string]int{}
		at.common = s.Replicas[api.ResourceGPU] == w.common.Replicas[api.ResourceGPU]
		for _, g := range gpus {
			for _, m := range g.MIG {
				at.starts[m.UUID] = m.Start
			}
		}
		specs = append(specs, kube.Spec(n))
	}
	var err error
	if w.snapshot, err = cluster.New(specs); err != nil {
		return nil, err
	}
	w.policy = placement.NewBerth(placement.Setup{Cluster: w.snapshot}, placement.DefaultParams())
	w.index = placement.NewIndex(w.snapshot, w.policy, nil, nil)
	return w, nil
}

// knows says whether info has the GPUs that the world has for its node.
func (w *world) knows(info fwk.NodeInfo) bool {
	n := info.Node()
	at := w.nodes[n.Name]
	return at != nil && (at.generation == info.GetGeneration() ||
		at.inventory == n.Annotations[api.AnnotationInventory] && at.plugin == n.Annotations[api.AnnotationPluginConfig])
}

// refresh counts anew what is held of a node. What cannot be counted, as on a
// GPU that failed, is left out: a score is all that depends on it.
func (w *world) refresh(at *site, info fwk.NodeInfo, n *node) {
	at.generation, at.scores = info.GetGeneration(), nil
	if at.index < 0 || n.ledger == nil {
		return
	}
	for i := range at.held {
		if err := w.snapshot.Release(&at.held[i]); err != nil {
			continue
		}
	}
	at.held = at.held[:0]
	have, asked := w.snapshot.Node(at.index), info.GetRequested()
	w.assume(at, cluster.Request{
		CPUMilli: min(asked.GetMilliCPU(), have.CPUMilli), MemoryBytes: min(asked.GetMemory(), have.MemoryBytes),
	})
	n.mu.Lock()
	held := n.ledger.Held()
	n.mu.Unlock()
	for _, h := range held {
		if device, r, ok := w.device(at, &h.Device); ok {
			w.assume(at, r, device)
		}
	}
}

func (w *world) assume(at *site, r cluster.Request, devices ...cluster.Device) {
	p := cluster.Placement{Node: at.index, Request: r, Devices: devices}
	if w.snapshot.Assume(&p) == nil {
		at.held = append(at.held, p)
	}
}

// device turns a device of a ledger into one of the Snapshot.
func (w *world) device(at *site, d *sharing.Device) (cluster.Device, cluster.Request, bool) {
	for j, c := range w.snapshot.Cards(at.index) {
		if c.Index != d.GPU {
			continue
		}
		if d.Profile != "" {
			number := w.snapshot.ProfileNumber(w.snapshot.GPUs(at.index)[j].Product, d.Profile)
			start, ok := at.starts[d.UUID]
			if number == 0 || !ok {
				return cluster.Device{}, cluster.Request{}, false
			}
			return w.snapshot.MIGDevice(at.index, j, number, start), cluster.Request{GPUs: 1, Profile: d.Profile}, true
		}
		out := cluster.Device{GPU: int32(j), MilliGPU: int32(max(1, d.MilliGPU)), MemoryBytes: d.MemoryBytes}
		if d.Resource != sharing.ResourceMemory {
			out.MemoryBytes = cluster.ShareBytes(out.MilliGPU, c.MemoryBytes)
			return out, cluster.Request{GPUs: 1, MilliGPU: out.MilliGPU}, true
		}
		return out, cluster.Request{GPUs: 1, GPUMemoryBytes: d.MemoryBytes}, true
	}
	return cluster.Device{}, cluster.Request{}, false
}
