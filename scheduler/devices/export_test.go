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
	"berth.dev/berth/core/queue"
)

// Hold keeps whole GPUs of a node, by position, for a pod.
func Hold(ctx context.Context, p *Plugin, pod *v1.Pod, node string, gpus ...int32) error {
	return p.plan(ctx, func(pl *planner) error {
		s := pl.placer().Snapshot()
		i, _ := s.Find(node)
		at := cluster.Placement{Node: i, Request: pl.request(pod)}
		for _, j := range gpus {
			at.Devices = append(at.Devices, cluster.Device{GPU: j, MilliGPU: cluster.Whole, MemoryBytes: s.Cards(i)[j].MemoryBytes})
		}
		return pl.hold(pod, at, "test")
	})
}

// LetGo gives up what is held for a pod.
func LetGo(p *Plugin, pod *v1.Pod) bool { return p.desk.release(pod.UID) }

// Drift compares what p knows of all nodes, brought up to date, with what a
// plugin knows that has not seen them before and has the same choices and holds
// in memory. It gives the first difference, or "".
func Drift(p *Plugin, all []fwk.NodeInfo) string {
	d, log := p.desk, klog.Background()
	d.score.mu.Lock()
	defer d.score.mu.Unlock()
	if err := d.score.update(log, d, all, true); err != nil {
		return err.Error()
	}
	fresh := newDesk()
	d.mu.Lock()
	fresh.assumed, fresh.doubtful, fresh.holds = maps.Clone(d.assumed), maps.Clone(d.doubtful), maps.Clone(d.holds)
	d.mu.Unlock()
	if err := fresh.score.update(log, fresh, all, true); err != nil {
		return err.Error()
	}
	was, is := d.score.world, fresh.score.world
	for i, at := range was.sites {
		a, b := *was.snapshot.Node(i), *is.snapshot.Node(i)
		// What is held is counted in other portions where a device is shared.
		a.Held, b.Held = [len(a.Held)]uint16{}, [len(b.Held)]uint16{}
		if fmt.Sprint(a) != fmt.Sprint(b) {
			return fmt.Sprintf("node %s is %v, and seen for the first time %v", at.object.Name, a, b)
		}
		if x, y := was.snapshot.GPUs(i), is.snapshot.GPUs(i); !slices.Equal(x, y) {
			return fmt.Sprintf("the GPUs of node %s are %v, and seen for the first time %v", at.object.Name, x, y)
		}
	}
	return ""
}

// Classes is how many classes of pods p keeps.
func Classes(p *Plugin) int { return len(p.desk.score.world.classes.byKey) }

// Learned is how many requests the policy of p has learned of.
func Learned(p *Plugin) float64 { return p.desk.score.world.policy.Mix().Total() }

// WaitOf is what a refused pod waits for, as far as the plugins alone know.
func WaitOf(p *Plugin, pod *v1.Pod) queue.Wait { return p.desk.waits.Of(pod, queue.Refused{}) }

// Lines are the names of the pods that wait in each line of p, in their order.
func Lines(p *Plugin) (out [][]string) {
	q := p.desk.waiting
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, line := range q.lines.All() {
		var names []string
		for _, uid := range line {
			names = append(names, q.pods[types.UID(uid)].Name)
		}
		out = append(out, names)
	}
	return out
}
