package candidates

import (
	"math"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/snapshot"
	"berth.dev/berth/kube/training"
	"berth.dev/berth/scheduler/evict"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/runtimes"
	"berth.dev/berth/scheduler/state"
)

// Cache is what was read of the nodes last time. Only nodes that have changed are
// read again. The lock of the view guards it: it is used within nodeindex.Profile.Plan.
type Cache struct {
	evictor *evict.Evictor
	least   func(gang string) int
	times   *runtimes.Times
	nodes
}

// nodes is the part of a Cache that is read again.
type nodes struct {
	view     *nodeindex.View
	budgets  int64             // budgets.who, as of which holders name their budgets
	snapshot *cluster.Snapshot // as the view's, with what is there and nothing that is held for others
	list     []node
	minCount map[string]int
}

// node is one node in a Cache.
type node struct {
	generation int64
	from       *state.Ledger
	version    int
	holders    []preemption.Holder
	pods       []*v1.Pod
	lowest     int32            // priority
	like       []queue.Template // of pods, by which their ends are expected; nil until it is needed
}

// NewCache returns a Cache in which nothing has been read. e knows which pods are being
// evicted, and which the API server has refused lately to evict; least returns how many
// members a gang needs, by its key, or 0 if that is not known. times tells when pods end that do not declare it.
func NewCache(e *evict.Evictor, least func(gang string) int, times *runtimes.Times) *Cache {
	return &Cache{evictor: e, least: least, times: times}
}

// reset forgets what has been read.
func (v *Cache) reset(pl *nodeindex.Planner, budgets int64) {
	v.nodes = nodes{
		view: pl.W, budgets: budgets, snapshot: pl.Placer().Snapshot().Emptied(1),
		list: make([]node, len(pl.W.Nodes)), minCount: map[string]int{},
	}
}

// look reads the nodes that have changed. ok is false where one has changed in a way
// that the Snapshot cannot follow.
func (v *Cache) look(pl *nodeindex.Planner, budgets *evict.Budgets) (ok bool) {
	for i, at := range pl.W.Nodes {
		n := &v.list[i]
		if n.generation == at.Generation && n.from == at.From && n.version == at.Version && n.pods != nil {
			continue
		}
		if n.pods != nil && v.snapshot.Replace(i, &at.Spec) != nil {
			return false
		}
		*n = node{generation: at.Generation, from: at.From, version: at.Version, pods: []*v1.Pod{}, lowest: math.MaxInt32}
		v.read(pl, budgets, i)
	}
	return true
}

// read reads node i, which has nothing on it yet.
func (v *Cache) read(pl *nodeindex.Planner, budgets *evict.Budgets, i int) {
	at := pl.W.Nodes[i]
	for key, o := range at.Held {
		if o.Pod != nil && o.Pod.UID != key {
			v.enter(budgets, i, o.Pod, o.Placement, true) // a binding that may have arrived: which of the two to evict is not known
		}
	}
	info, err := pl.All.Get(pl.NodeName(i))
	if err != nil {
		return
	}
	counted := int64(0)
	for _, pi := range info.GetPods() {
		pod := pi.GetPod()
		o := at.Held[pod.UID]
		if o == nil {
			o = &snapshot.Occupant{Pod: pod, Placement: cluster.Placement{Node: i, Request: bare(pod)}}
			if at.Foreign {
				counted = countUnnamed(v.snapshot, o, counted)
			}
		}
		v.enter(budgets, i, pod, o.Placement, false) // the index may have the pod as it was bound: not started, not deleted
	}
}

// enter adds a pod with what it holds to node i.
func (v *Cache) enter(budgets *evict.Budgets, i int, pod *v1.Pod, held cluster.Placement, fixed bool) {
	h := preemption.Holder{
		Placement: held, Priority: request.Priority(pod), Leaving: pod.DeletionTimestamp != nil, Fixed: fixed, Budgets: budgets.Of(pod),
	}
	if !assumeUnhealthyToo(v.snapshot, &h.Placement) {
		return // more than there is of a node: what cannot be counted cannot be freed
	}
	if t := pod.Status.StartTime; t != nil {
		h.Start, h.Saves = t.Time, training.Saves(pod)
	}
	h.Ends = request.Ends(pod)
	if g, _ := request.GangOf(pod); g != nil {
		h.Gang, h.Leads, v.minCount[g.Key] = g.Key, training.Leads(pod), g.MinCount
	}
	v.list[i].lowest = min(v.list[i].lowest, h.Priority)
	v.list[i].holders, v.list[i].pods = append(v.list[i].holders, h), append(v.list[i].pods, pod)
}

// countUnnamed counts a pod on the GPUs of a node that does not publish its devices:
// from is how many units of them are counted already. It returns how many are with it.
func countUnnamed(s *cluster.Snapshot, o *snapshot.Occupant, from int64) int64 {
	want := request.Of(o.Pod)
	i, shares := o.Placement.Node, int64(s.Node(o.Placement.Node).Shares)
	for left := want[api.ResourceGPU] + want[api.ResourceGPUShared]; left > 0 && from/shares < int64(len(s.Cards(i))); {
		j := from / shares
		n := min(left, shares-from%shares)
		milli := int32(n * (cluster.Whole / shares))
		if n == shares {
			milli = cluster.Whole
		}
		o.Placement.Devices = append(o.Placement.Devices, cluster.Device{GPU: int32(j), MilliGPU: milli, MemoryBytes: cluster.ShareBytes(milli, s.Cards(i)[j].MemoryBytes)})
		from, left = from+n, left-n
	}
	o.Placement.Request.GPUs = int32(len(o.Placement.Devices))
	return from
}

// bare is what a pod takes of its node beside devices.
func bare(pod *v1.Pod) cluster.Request {
	r := request.Demand(pod, gpu.Sharing{})
	return cluster.Request{CPUMilli: r.CPUMilli, MemoryBytes: r.MemoryBytes}
}

// assumeUnhealthyToo assumes p, on GPUs that have failed too, and reports whether there is room.
func assumeUnhealthyToo(s *cluster.Snapshot, p *cluster.Placement) bool {
	for _, d := range p.Devices {
		if j := int(d.GPU); !s.GPUs(p.Node)[j].Healthy {
			s.SetHealthy(p.Node, j, true)
			defer s.SetHealthy(p.Node, j, false)
		}
	}
	return s.Assume(p) == nil
}
