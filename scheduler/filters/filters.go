package filters

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/scheduler/nodeindex"
)

// preFilters is the part of the framework that plugins are not given by name.
type preFilters interface {
	RunPreFilterPlugins(context.Context, fwk.CycleState, *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
}

// Filters asks the framework's filters about pods that are planned together: where each
// could go beside those that are placed already, and beside pods that something is
// held for. Berth's own plugins are left out: what they know is in the Snapshot. It
// implements gang.Filters, with members numbered as in the pods that it was made of.
//
// The answers are those of kube-scheduler's plugins, for each kind of pod once, and
// again only where what is placed may have changed them. Two things are not seen
// before a pod is really tried: a resource claim or an unbound volume that two
// members could use, but not both.
//
// Filters are good only inside the function that nodeindex.Profile.Plan calls. Between Place and
// Close the scheduler's NodeInfos may have the pods that are placed tentatively, as they
// have in kube-scheduler's own scheduling of pod groups, so nodeindex.Planner.Hold must not be
// called before Close.
type Filters struct {
	ctx    context.Context //nolint:containedctx // of the one call that a Filters lives in
	pl     *nodeindex.Planner
	runner preFilters
	base   fwk.CycleState
	pods   []*v1.Pod
	infos  []fwk.PodInfo // of pods
	kinds  []*kind
	of     []int // the kind of each of pods
	// live is that pods are placed on the scheduler's own NodeInfos, as PreFilter
	// reads no others; else on copies.
	live    bool
	copies  map[string]fwk.NodeInfo
	placed  []placedPod
	others  int                     // of placed, those that are not of this plan
	gone    []placedPod             // pods that have tentatively left
	left    map[types.UID]placedPod // of them, those of Leave
	changes int                     // so far
	changed map[string]int          // by node: changes after the last
}

// placedPod is a pod that is placed tentatively.
type placedPod struct {
	info fwk.PodInfo
	node string
}

// The plugins whose answer for a node depends on pods of other nodes.
const (
	spreadPlugin   = "PodTopologySpread"
	affinityPlugin = "InterPodAffinity"
)

// resourcesPlugin is the plugin that counts CPU, memory, and devices by name.
const resourcesPlugin = "NodeResourcesFit"

// whyForbidden is kube-scheduler's text for what kind.forbids is about.
const whyForbidden = "node(s) didn't satisfy existing pods anti-affinity rules"

type activeMark struct{}

const activeKey fwk.StateKey = "berth.dev/filters"

// Clone implements fwk.StateData.
func (m activeMark) Clone() fwk.StateData { return m }

// Active reports whether a plugin is asked on behalf of Filters. Berth's own plugins
// then skip.
func Active(cycle fwk.CycleState) bool {
	_, err := cycle.Read(activeKey)
	return err == nil
}

// Allow returns what reports whether the framework's filters let a pod use a node, but for those
// of Berth and the one that counts resources: what is in use there comes free. They are asked
// when it is first called. cycle is that of the pod's own scheduling cycle.
func Allow(ctx context.Context, h fwk.Handle, cycle fwk.CycleState, pod *v1.Pod) func(node string) bool {
	begin := sync.OnceValues(func() (asked fwk.CycleState, only sets.Set[string]) {
		asked = onBehalf(cycle)
		if runner, ok := h.(preFilters); ok {
			var status *fwk.Status
			if only, status = preFilter(ctx, runner, asked, pod); !status.IsSuccess() {
				return asked, sets.New[string]()
			}
		}
		asked.SetSkipFilterPlugins(asked.GetSkipFilterPlugins().Union(sets.New(resourcesPlugin)))
		return asked, only
	})
	return func(node string) bool {
		asked, only := begin()
		if only != nil && !only.Has(node) {
			return false
		}
		info, err := h.SnapshotSharedLister().NodeInfos().Get(node)
		return err == nil && h.RunFilterPlugins(ctx, asked, pod, info).IsSuccess() // else the node is gone
	}
}

// onBehalf is a copy of a cycle in which Berth's own plugins skip.
func onBehalf(cycle fwk.CycleState) fwk.CycleState {
	asked := cycle.Clone()
	asked.Write(activeKey, activeMark{})
	return asked
}

// preFilter has PreFilter look at a pod. only is the nodes that it leaves; nil is all.
func preFilter(ctx context.Context, runner preFilters, cycle fwk.CycleState, pod *v1.Pod) (only sets.Set[string], status *fwk.Status) {
	result, status, _ := runner.RunPreFilterPlugins(ctx, cycle, pod)
	if !result.AllNodes() {
		only = result.NodeNames
	}
	return only, status
}

// enter places a pod on a node.
func (t *Filters) enter(s placedPod) {
	info, err := t.info(s.node)
	if err != nil {
		return // the node is gone
	}
	if portsTaken(info, s.info.GetPod()) {
		return // of a pod that is to go; taking this one back would free the port
	}
	if !t.live && t.copies[s.node] == nil {
		info = info.Snapshot()
		t.copies[s.node] = info
	}
	info.AddPodInfo(s.info)
	t.placed = append(t.placed, s)
	t.change(s, info, 1)
}

// leave takes back the last pod that was placed.
func (t *Filters) leave() {
	last := len(t.placed) - 1
	s := t.placed[last]
	t.placed = t.placed[:last]
	info, err := t.info(s.node)
	if err == nil {
		err = info.RemovePod(klog.FromContext(t.ctx), s.info.GetPod())
	}
	if err != nil {
		klog.FromContext(t.ctx).Error(err, "A pod that was placed tentatively cannot be taken back", "pod", klog.KObj(s.info.GetPod()), "node", s.node)
		return
	}
	t.change(s, info, -1)
}

// change has every kind know of a pod that has come (by is 1) or gone (-1).
func (t *Filters) change(s placedPod, info fwk.NodeInfo, by int) {
	t.changes++
	t.changed[s.node] = t.changes
	for _, k := range t.kinds {
		k.forbid(s.info, info.Node(), by)
		switch run := t.pl.P.Handle.RunPreFilterExtensionAddPod; {
		case k.refused != nil:
		case k.spreads: // it keeps the least count of a domain only as far as one node changes
			k.stale = true
		default:
			if by < 0 {
				run = t.pl.P.Handle.RunPreFilterExtensionRemovePod
			}
			k.stale = !run(t.ctx, k.state, k.pod, s.info, info).IsSuccess() || k.stale
		}
	}
}

// telling is the labels that tell the pods of a Filters apart for a filter: those in
// which they differ and that a selector asks for, of their own or of a pod with
// required anti-affinity. The numbers that Jobs and StatefulSets give to their pods
// are usually asked for by none.
func (t *Filters) telling() sets.Set[string] {
	differ := sets.New[string]()
	for _, pod := range t.pods {
		for key, value := range pod.Labels {
			if other, ok := t.pods[0].Labels[key]; !ok || other != value {
				differ.Insert(key)
			}
		}
		for key := range t.pods[0].Labels {
			if _, ok := pod.Labels[key]; !ok {
				differ.Insert(key)
			}
		}
	}
	if len(differ) == 0 {
		return nil
	}
	asked := sets.New[string]()
	for _, pod := range t.pods {
		askedBy(pod, asked)
	}
	if nodes, err := t.pl.All.HavePodsWithRequiredAntiAffinityList(); err == nil {
		for _, n := range nodes {
			for _, p := range n.GetPodsWithRequiredAntiAffinity() {
				askedBy(p.GetPod(), asked)
			}
		}
	}
	d := t.pl.P.Cluster
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for _, h := range d.Holds {
		askedBy(h.Pod, asked)
	}
	return differ.Intersection(asked)
}

// info returns a node as it is with what is placed there.
func (t *Filters) info(node string) (fwk.NodeInfo, error) {
	if c := t.copies[node]; c != nil {
		return c, nil
	}
	return t.pl.All.Get(node)
}
