// Package devices puts Berth's kube-scheduler plugins together for one scheduler.
// Its tests try them together, on a scheduler as small as can be.
package devices

import (
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/scheduler/admit"
	"berth.dev/berth/scheduler/fit"
	"berth.dev/berth/scheduler/gang"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/preempt"
	"berth.dev/berth/scheduler/queue"
)

// The names of the plugins in the scheduler's configuration.
const (
	Name           = fit.Name
	WaitingName    = queue.WaitingName
	PreemptionName = preempt.PreemptionName
	GangsName      = gang.GangsName
	GangPlansName  = gang.PlansName
	QueuesName     = admit.Name
)

// Waits is what the plugins say of pods that they refuse.
type Waits = queue.Waits

// NodesFrom tells the metrics of this process where the nodes are: see
// nodeindex.NodesFrom.
func NodesFrom(list func() ([]fwk.NodeInfo, error)) { nodeindex.NodesFrom(list) }

// Plugins returns the makers of Berth's plugins by name, for one scheduler: they
// share what they know, as the scheduler's profiles share the nodes. Plans do not ask
// the framework's filters.
func Plugins() map[string]nodeindex.Maker {
	made, _ := WithCluster(nil)
	return made
}

// WithCluster is Plugins, and what these plugins share. With podInfo plans ask the
// framework's filters.
func WithCluster(podInfo nodeindex.NewPodInfo) (map[string]nodeindex.Maker, *nodeindex.Cluster) {
	c, gangs := nodeindex.NewCluster(), gang.NewManager()
	c.NewPodInfo = podInfo
	nodeindex.Register(c)
	nodeindex.RegisterPreemptions()
	p := preempt.NewPreemptions(c, gangs.Broken, gangs.Least, gangs.Unkept)
	c.Quota.Least = gangs.Least
	made := map[string]nodeindex.Maker{
		fit.Name:               fit.NewPlugin(c),
		admit.Name:             admit.New(c),
		queue.WaitingName:      queue.NewWaitingPlugin(c.Waiting),
		preempt.PreemptionName: preempt.NewPreemption(c, p),
		gang.GangsName:         gang.NewGangs(c, gangs),
		gang.PlansName:         gang.NewPlans(c, gangs, p.ForGangs),
	}
	return made, c
}
