package devices

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// hold is devices of one node that are promised to a pod that is not bound yet:
// a member of a gang that is planned as a whole, or a pod that others make room
// for. They count as held for everybody but the pod; PreFilter sends the pod
// straight to the node, and Reserve gives it exactly these devices, whatever
// else is free.
//
// Devices that somebody still holds, because room is being made, belong to the
// hold as soon as they are free; until then Filter says that the pod waits.
//
// A hold lives in the scheduler's memory only. It ends when the pod's devices
// are reserved, when the pod is bound or deleted, and when release gives it up.
type hold struct {
	pod     *v1.Pod
	node    string
	request cluster.Request            // with CPU and memory of the node
	named   map[string][]sharing.Named // by container; nil where the pod asks for no devices or the node publishes none
	parts   []sharing.Part             // what the containers ask for
	at      []cluster.Device           // the same devices, as package placement has them
	why     string                     // for messages and metrics: "gang NAMESPACE/NAME", "preemption"
	taken   int64                      // holds in the order in which they were taken
	doubt   bool                       // of desk.doubtful: it names no node, and others of the node do as well
}

// holdOf gives what is held for a pod, or nil.
func (d *desk) holdOf(uid types.UID) *hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.holds[uid]
}

// release gives up what is held for a pod, and calls those who wait for it. It
// says whether there was anything. It may be called at any time, but not with mu
// held, nor from where the scheduling queue calls a plugin.
func (d *desk) release(uid types.UID) bool {
	d.mu.Lock()
	had := d.dropHold(uid)
	d.mu.Unlock()
	if had {
		d.waiting.wake()
	}
	return had
}

// withdraw gives up what is held for a pod without calling anybody: what was taken
// in this scheduling cycle has kept nobody from anything.
func (d *desk) withdraw(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropHold(uid)
}

// dropHold is release with mu held, and calls nobody.
func (d *desk) dropHold(uid types.UID) bool {
	h := d.holds[uid]
	if h == nil {
		return false
	}
	delete(d.holds, uid)
	d.touch(h.node)
	return true
}

// planner looks at the whole cluster at one moment of a scheduling cycle, as the
// fast path does, to plan for several pods at once. It is good only inside the
// function that plan calls, on the goroutine of the scheduling cycle.
//
// A plan is made on the Snapshot inside a Mark that is always rolled back; what
// is to stay is then held pod by pod:
//
//	err := p.plan(ctx, func(pl *planner) error {
//		s := pl.placer().Snapshot()
//		m := s.Mark()
//		placed, ok, err := placement.Place(pl.placer(), &request) // or a gang.Planner, or Release victims
//		s.RollBack(m)
//		...
//		err = pl.hold(pod, placed[k], "gang a/b")
//	})
type planner struct {
	p   *Plugin
	w   *world
	log klog.Logger
	all fwk.NodeInfoLister
}

// plan brings the view of all nodes up to date with the scheduler's snapshot and
// calls do with it, while nobody else changes it. do must not call plan, and not
// block. plan's error is do's, or says that the nodes cannot be listed.
func (p *Plugin) plan(ctx context.Context, do func(*planner) error) error {
	lister := p.handle.SnapshotSharedLister().NodeInfos()
	all, err := lister.List()
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	log := klog.FromContext(ctx)
	s := &p.desk.score
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.update(log, p.desk, all, true); err != nil {
		return err
	}
	return do(&planner{p: p, w: s.world, log: log, all: lister})
}

// placer finds the best node for a request, over all nodes; nodes are numbered
// by its Snapshot. Pods that are bound, assumed or held for are placed on it.
// Requests made by request keep to the nodes that their pod may use.
func (pl *planner) placer() placement.Placer { return pl.w.index }

// request is what a pod asks of one node, its constraints on nodes included (as
// Request.Class). A pod that one request cannot describe, because it asks for
// several kinds of devices, or for what only the framework's other plugins know
// (volumes, pod affinity, spreading, host ports, claims), may fit where the
// request does not, and the other way round.
func (pl *planner) request(pod *v1.Pod) cluster.Request {
	r, _, err := pl.w.request(pod, newWanted(pod, request.Parts(pod)))
	if err != nil {
		return cluster.Request{GPUs: 1, MilliGPU: cluster.Whole, Products: cluster.NoProduct} // its affinity cannot be read: the API server refuses such pods
	}
	return r
}

// nodeName is the name of a node of the placer's Snapshot.
func (pl *planner) nodeName(node int) string { return pl.w.sites[node].object.Name }

// object is a node of the placer's Snapshot as the API has it. Read it only.
func (pl *planner) object(node int) *v1.Node { return pl.w.sites[node].object }

// hold keeps at.Devices of node at.Node for a pod that is not bound. at is a
// placement of the pod's own request on the placer's Snapshot, which is as it
// was before the plan (rolled back). Devices that others hold now are allowed;
// see hold. What was held for the pod before is given up. The placer sees the
// hold at once.
//
// The error says that the devices cannot be those of the pod's containers; then
// nothing is held.
func (pl *planner) hold(pod *v1.Pod, at cluster.Placement, why string) error {
	d, s := pl.p.desk, pl.w.sites[at.Node]
	h := &hold{pod: pod, node: s.object.Name, request: at.Request, parts: request.Parts(pod), at: at.Devices, why: why}
	if len(h.parts) > 0 && !s.foreign {
		devices, ok := pl.w.namesOf(s, at.Devices)
		if ok {
			h.named, ok = nameDevices(h.parts, devices)
		}
		if !ok {
			return fmt.Errorf("hold %d devices of node %s for pod %s/%s: they are not what its containers ask for", len(at.Devices), h.node, pod.Namespace, pod.Name)
		}
	}
	d.mu.Lock()
	old := d.holds[pod.UID]
	d.dropHold(pod.UID)
	d.taken++
	h.taken = d.taken
	d.holds[pod.UID] = h
	d.touch(h.node)
	d.mu.Unlock()
	pl.see(h.node)
	if old != nil && old.node != h.node {
		pl.see(old.node)
	}
	return nil
}

// release gives up what is held for a pod, if anything, so that the placer sees it
// free. It calls nobody: that is for the end of the plan.
func (pl *planner) release(uid types.UID) {
	h := pl.p.desk.holdOf(uid)
	if h == nil {
		return
	}
	pl.p.desk.withdraw(uid)
	pl.see(h.node)
}

// see brings one node of the world up to date. A node that is gone is left to
// the next plan.
func (pl *planner) see(name string) {
	if info, err := pl.all.Get(name); err == nil && pl.w.byName[name] != nil {
		pl.w.refresh(pl.log, pl.p.desk, pl.w.byName[name], info)
	}
}
