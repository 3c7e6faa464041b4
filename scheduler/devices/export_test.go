package devices

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/cluster"
	corequeue "berth.dev/berth/core/queue"
	"berth.dev/berth/scheduler/fit"
	"berth.dev/berth/scheduler/gang"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/preempt"
	"berth.dev/berth/scheduler/queue"
)

// The plugins, as the tests of all of them together name them.
type (
	Plugin     = fit.Plugin
	Gangs      = gang.Gangs
	GangPlans  = gang.Plans
	Waiting    = queue.Waiting
	Preemption = preempt.Preemption
)

// Factory makes the plugin that chooses devices, without the others.
func Factory() nodeindex.Maker { return fit.Factory() }

// Hold keeps whole GPUs of a node, by position, for a pod.
func Hold(ctx context.Context, p *fit.Plugin, pod *v1.Pod, node string, gpus ...int32) error {
	return p.Plan(ctx, func(pl *nodeindex.Planner) error {
		s := pl.Placer().Snapshot()
		i, _ := s.Find(node)
		at := cluster.Placement{Node: i, Request: pl.Request(pod)}
		for _, j := range gpus {
			at.Devices = append(at.Devices, cluster.Device{GPU: j, MilliGPU: cluster.Whole, MemoryBytes: s.Cards(i)[j].MemoryBytes})
		}
		return pl.Hold(pod, at, "test")
	})
}

// LetGo gives up what is held for a pod.
func LetGo(p *fit.Plugin, pod *v1.Pod) bool { return p.Cluster.Release(pod.UID) }

// Drift compares what p knows of all nodes, brought up to date, with what a
// plugin knows that has not seen them before and has the same choices and holds
// in memory. It gives the first difference, or "".
func Drift(p *fit.Plugin, all []fwk.NodeInfo) string {
	d, log := p.Cluster, klog.Background()
	d.Index.Mu.Lock()
	defer d.Index.Mu.Unlock()
	if err := d.Index.Update(log, d.State, all, true); err != nil {
		return err.Error()
	}
	fresh := nodeindex.NewCluster()
	d.Mu.Lock()
	fresh.Assumed, fresh.Doubtful, fresh.Holds = maps.Clone(d.Assumed), maps.Clone(d.Doubtful), maps.Clone(d.Holds)
	d.Mu.Unlock()
	if err := fresh.Index.Update(log, fresh.State, all, true); err != nil {
		return err.Error()
	}
	was, is := d.Index.View, fresh.Index.View
	for i, at := range was.Nodes {
		a, b := *was.Snapshot.Node(i), *is.Snapshot.Node(i)
		// What is held is counted in other portions where a device is shared.
		a.Held, b.Held = [len(a.Held)]uint16{}, [len(b.Held)]uint16{}
		if fmt.Sprint(a) != fmt.Sprint(b) {
			return fmt.Sprintf("node %s is %v, and seen for the first time %v", at.Object.Name, a, b)
		}
		if x, y := was.Snapshot.GPUs(i), is.Snapshot.GPUs(i); !slices.Equal(x, y) {
			return fmt.Sprintf("the GPUs of node %s are %v, and seen for the first time %v", at.Object.Name, x, y)
		}
	}
	return ""
}

// Classes is how many classes of pods p keeps.
func Classes(p *fit.Plugin) int { return len(p.Cluster.Index.View.Classes.ByKey) }

// Learned is how many requests the policy of p has learned of.
func Learned(p *fit.Plugin) float64 { return p.Cluster.Index.View.Policy.Mix().Total() }

// WaitOf is what a refused pod waits for, as far as the plugins alone know.
func WaitOf(p *fit.Plugin, pod *v1.Pod) corequeue.Wait {
	return p.Cluster.Waits.Of(pod, corequeue.Refused{})
}

// Lines are the names of the pods that wait in each line of p, in their order.
func Lines(p *fit.Plugin) (out [][]string) {
	q := p.Cluster.Waiting
	q.Mu.Lock()
	defer q.Mu.Unlock()
	for _, line := range q.Lines.All() {
		var names []string
		for _, uid := range line {
			names = append(names, q.Pods[types.UID(uid)].Name)
		}
		out = append(out, names)
	}
	return out
}

// Claims lists who has a reservation, by pod UID or key of the gang.
func Claims(x *preempt.Preemption) []string { return x.Claims() }
