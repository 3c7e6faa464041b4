package nodeindex

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
	"berth.dev/berth/scheduler/state"
)

// Planner looks at the whole cluster at one moment of a scheduling cycle, as the
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
type Planner struct {
	P   *Profile
	W   *View
	Log klog.Logger
	All fwk.NodeInfoLister
}

// Plan brings the view of all nodes up to date with the scheduler's snapshot and
// calls do with it, while nobody else changes it. do must not call plan, and not
// block. plan's error is do's, or says that the nodes cannot be listed.
func (p *Profile) Plan(ctx context.Context, do func(*Planner) error) error {
	lister := p.Handle.SnapshotSharedLister().NodeInfos()
	all, err := lister.List()
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	log := klog.FromContext(ctx)
	s := &p.Cluster.Index
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if err := s.Update(log, p.Cluster.State, all, true); err != nil {
		return err
	}
	return do(&Planner{P: p, W: s.View, Log: log, All: lister})
}

// Placer finds the best node for a request, over all nodes; nodes are numbered
// by its Snapshot. Pods that are bound, assumed or held for are placed on it.
// Requests made by request keep to the nodes that their pod may use.
func (pl *Planner) Placer() placement.Placer { return pl.W.Index }

// Request is what a pod asks of one node, its constraints on nodes included (as
// Request.Class). A pod that one request cannot describe, because it asks for
// several kinds of devices, or for what only the framework's other plugins know
// (volumes, pod affinity, spreading, host ports, claims), may fit where the
// request does not, and the other way round.
func (pl *Planner) Request(pod *v1.Pod) cluster.Request {
	r, _, err := pl.W.Request(pod, state.NewRequest(pod, request.Parts(pod)))
	if err != nil {
		return cluster.Request{GPUs: 1, MilliGPU: cluster.Whole, Products: cluster.NoProduct} // its affinity cannot be read: the API server refuses such pods
	}
	return r
}

// NodeName is the name of a node of the placer's Snapshot.
func (pl *Planner) NodeName(node int) string { return pl.W.Nodes[node].Object.Name }

// Object is a node of the placer's Snapshot as the API has it. Read it only.
func (pl *Planner) Object(node int) *v1.Node { return pl.W.Nodes[node].Object }

// Hold keeps at.Devices of node at.Node for a pod that is not bound. at is a
// placement of the pod's own request on the placer's Snapshot, which is as it
// was before the plan (rolled back). Devices that others hold now are allowed;
// see hold. What was held for the pod before is given up. The placer sees the
// hold at once.
//
// The error says that the devices cannot be those of the pod's containers; then
// nothing is held. Nor is anything for a pod that has been deleted meanwhile.
func (pl *Planner) Hold(pod *v1.Pod, at cluster.Placement, why string) error {
	d, s := pl.P.Cluster, pl.W.Nodes[at.Node]
	h := &state.Hold{Pod: pod, Node: s.Object.Name, Request: at.Request, Parts: request.Parts(pod), At: at.Devices, Why: why}
	if len(h.Parts) > 0 && !s.Foreign {
		devices, ok := pl.W.Named(&s.Node, at.Devices)
		if ok {
			h.Named, ok = sharing.NameDevices(h.Parts, devices)
		}
		if !ok {
			return fmt.Errorf("hold %d devices of node %s for pod %s/%s: they are not what its containers ask for", len(at.Devices), h.Node, pod.Namespace, pod.Name)
		}
	}
	old := d.HoldOf(pod.UID)
	pl.take(h)
	if old != nil && old.Node != h.Node {
		pl.see(old.Node)
	}
	return nil
}

// HoldAgain holds what was held before and has been released, less the devices that are held for others since then, while they are.
func (pl *Planner) HoldAgain(h *state.Hold) {
	if pl.W.ByName[h.Node] == nil {
		return // the node is gone
	}
	again := *h
	pl.take(&again)
}

// take takes a hold, after all others, in place of what was held for its pod.
func (pl *Planner) take(h *state.Hold) {
	d := pl.P.Cluster
	d.Mu.Lock()
	d.DropHold(h.Pod.UID)
	d.Taken++
	h.Taken = d.Taken
	d.Holds[h.Pod.UID] = h
	d.MarkStale(h.Node)
	d.Mu.Unlock()
	d.Still(h.Pod)
	pl.see(h.Node)
}

// Release gives up what is held for a pod, if anything, so that the placer sees it
// free. It calls nobody: that is for the end of the plan.
func (pl *Planner) Release(uid types.UID) {
	h := pl.P.Cluster.HoldOf(uid)
	if h == nil {
		return
	}
	pl.P.Cluster.Withdraw(uid)
	pl.see(h.Node)
}

// see brings one node of the view up to date. A node that is gone is left to
// the next plan.
func (pl *Planner) see(name string) {
	if info, err := pl.All.Get(name); err == nil && pl.W.ByName[name] != nil {
		pl.W.refresh(pl.Log, pl.P.Cluster.State, pl.W.ByName[name], info)
	}
}
