package devices

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube"
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
	why     string                     // for messages and metrics: "gang NAMESPACE/NAME", "preemption"
}

// holdOf gives what is held for a pod, or nil.
func (d *desk) holdOf(uid types.UID) *hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.holds[uid]
}

// release gives up what is held for a pod. It says whether there was anything.
// It may be called at any time, but not with mu held.
func (d *desk) release(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dropHold(uid)
}

// dropHold is release with mu held.
func (d *desk) dropHold(uid types.UID) bool {
	h := d.holds[uid]
	if h == nil {
		return false
	}
	delete(d.holds, uid)
	delete(d.nodes, h.node)
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
//		placed, ok, err := placement.PlaceGang(pl.placer(), &gang) // or Release victims, and Best
//		s.RollBack(m)
//		...
//		_, err = pl.hold(pod, placed[k], "gang a/b")
//	})
type planner struct {
	p   *Plugin
	w   *world
	log klog.Logger
}

// plan brings the view of all nodes up to date with the scheduler's snapshot and
// calls do with it, while nobody else changes it. do must not call plan, and not
// block. plan's error is do's, or says that the nodes cannot be listed.
func (p *Plugin) plan(ctx context.Context, do func(*planner) error) error {
	all, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	log := klog.FromContext(ctx)
	s := &p.desk.score
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.update(log, p.desk, all, all); err != nil {
		return err
	}
	return do(&planner{p: p, w: s.world, log: log})
}

// placer finds the best node for a request, over all nodes; nodes are numbered
// by its Snapshot. Pods that are bound, assumed or held for are placed on it.
// Requests made by request keep to the nodes that their pod may use.
func (pl *planner) placer() placement.Placer { return pl.w.index }

// request is what a pod asks of one node, its constraints on nodes included (as
// Request.Class). simple is false for a pod that one request cannot describe:
// because it asks for several kinds of devices, or for what only the framework's
// other plugins know (volumes, pod affinity, spreading, host ports, claims). It
// may still be tried, but it may fit where the request does not, and the other
// way round.
func (pl *planner) request(pod *v1.Pod) (r cluster.Request, simple bool) {
	return kube.Demand(pod, pl.w.common), true
}

// nodeName is the name of a node of the placer's Snapshot.
func (pl *planner) nodeName(node int) string { return pl.w.snapshot.Node(node).Name }

// occupant is one pod that holds devices of a node, or that they are held for.
type occupant struct {
	pod       *v1.Pod
	placement cluster.Placement // may be released from the Snapshot, inside a Mark
	held      bool              // not there yet: a hold
}

// occupants lists the pods that hold devices of a node, by namespace and name.
// Pods without devices are not in it; what they take of CPU and memory is.
func (pl *planner) occupants(node int) []occupant { return nil }

// hold keeps at.Devices of node at.Node for a pod that is not bound. at is a
// placement of the pod's own request on the placer's Snapshot, which is as it
// was before the plan (rolled back). Devices that others hold now are allowed;
// see hold. What was held for the pod before is given up.
//
// The error says that the devices cannot be those of the pod's containers, or
// are not there; then nothing is held.
func (pl *planner) hold(pod *v1.Pod, at cluster.Placement, why string) (*hold, error) {
	d := pl.p.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropHold(pod.UID)
	h := &hold{pod: pod, node: pl.nodeName(at.Node), request: at.Request, why: why}
	d.holds[pod.UID] = h
	delete(d.nodes, h.node)
	return h, nil
}

// release gives up what is held for a pod, so that the placer sees it free.
func (pl *planner) release(uid types.UID) bool { return pl.p.desk.release(uid) }
