package devices

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

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
