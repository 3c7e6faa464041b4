package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/allocation"
	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/mig"
	"berth.dev/berth/agent/mps"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/agent/record"
	"berth.dev/berth/agent/settings"
	"berth.dev/berth/api"
	"berth.dev/berth/core/health"
)

// Run serves the node until ctx ends, and gives nil then. Containers keep running
// when it ends, and what they hold stays theirs.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var late *config.Settings
	for {
		a := &agent{o: o, late: late}
		g := newGroup(ctx)
		if err := a.start(g); err != nil {
			g.run(func(context.Context) error { return err })
		}
		err := g.wait()
		if errors.Is(err, errLate) {
			o.Log.Info("first valid settings; restarting with them")
			late = &a.status.Load().Settings
			continue
		}
		if err == nil {
			o.Log.Info("the agent has stopped; containers keep running")
		}
		return err
	}
}

// errLate ends the parts of an agent whose first settings were refused, once there
// are others: nothing was offered until then, and what is read at the start alone
// was not known.
var errLate = errors.New("settings have come late")

// agent is one Run.
type agent struct {
	o          Options
	late       *config.Settings // that came after the first were refused; nil is as the first
	initial    config.Settings  // at the start: for what does not change while it runs
	cluster    *cluster         // nil without an API server
	client     *nvml.Client
	node       *allocation.Node // nil where it only observes
	record     *record.Record   // of pods that are gone; nil is that none is kept
	reconciler *reconciler
	mps        *mps.Manager // nil where it only observes
	mpsMu      sync.Mutex   // held while it is told what to serve
	others     others
	status     atomic.Pointer[Status]
	mig        atomic.Pointer[mig.Manager] // nil where nothing is cut
}

// start begins everything. What it has begun before an error ends with g.
func (a *agent) start(g *group) error {
	o := &a.o
	refused := a.loadInitialSettings()
	policy := health.NewPolicy(a.initial.Health.Disable, a.initial.Health.Enable)
	for _, w := range unused(a.initial) {
		o.Log.Warn("configuration", "warning", w)
	}
	if err := a.connect(g); err != nil {
		return err
	}
	source, err := a.pods(g)
	if err != nil {
		return err
	}
	if err := a.startDriver(g); err != nil {
		return err
	}
	var offered offers = nowhere{}
	if !o.Observe {
		if a.node, err = a.newNode(g.ctx, source); err != nil {
			return err
		}
		g.last(a.node.Close)
		a.mps = a.newMPS()
		if !refused { // else all begins again before anything is offered
			offered = a.node
		}
	}
	choices := settings.Watch(g.ctx, o.Settings)
	g.last(func() {
		for range choices { // until it has ended
		}
	})
	a.reconciler = newReconciler(a.client, offered, choices, policy)
	a.reconciler.log = o.Log
	if a.node != nil {
		a.reconciler.holders = a.holdersOf
	}
	if err := a.publish(g); err != nil {
		return err
	}
	if refused {
		a.waitForSettings(g)
	}
	a.watchFake(g)
	a.serveMetrics(g, source)
	if !o.Observe {
		a.serveKubelet(g)
		a.runMPS(g)
		a.runMIG(g)
	}
	g.run(a.reconciler.run)
	return nil
}

// nowhere takes offers of an agent that only observes.
type nowhere struct{}

// startDriver runs the child that owns the driver.
func (a *agent) startDriver(g *group) error {
	o := &a.o
	command := append([]string(nil), o.Child...)
	if o.FakeFile == "" {
		command = append(command, DriverFlags(a.initial)...)
	}
	a.client = nvml.Start(g.ctx, nvml.Options{Command: command, Log: o.Log})
	g.last(a.client.Wait)
	return nil
}

// newNode makes the ledger of the node.
func (a *agent) newNode(ctx context.Context, source allocation.PodSource) (*allocation.Node, error) {
	o := &a.o
	return allocation.New(ctx, allocation.Options{
		Kubelet: o.Allocation == api.AllocationKubelet,
		CDIDir:  o.CDIDir, DeviceDir: o.deviceDir(), PodResources: o.podResources(), DevRoot: o.DevRoot,
		Pods: source, SchedulerNames: o.SchedulerNames, Required: o.Required,
		DriverCDI: a.client.CDI, MPS: a.mpsEdits, SetMemoryLimit: a.client.SetMemoryLimit,
		Event: a.podEvent, NodeEvent: a.logNodeEvent, Log: o.Log,
	})
}

// serveKubelet serves the device plugins.
func (a *agent) serveKubelet(g *group) {
	g.run(a.node.Run)
	g.run(func(ctx context.Context) error {
		return deviceplugin.Run(ctx, deviceplugin.Options{
			Dir: a.o.deviceDir(), Log: a.o.Log,
			Foreign: a.setOtherPlugin,
		}, a.node)
	})
}

// podEvent tells a pod's users something.
func (a *agent) podEvent(pod *v1.Pod, kind, reason, message string) {
	a.o.Log.Info("pod", "pod", pod.Namespace+"/"+pod.Name, "reason", reason, "message", message)
	if a.cluster != nil {
		a.cluster.podEvent(pod, kind, reason, message)
	}
}

// logNodeEvent is nodeEvent for what is not logged elsewhere.
func (a *agent) logNodeEvent(kind, reason, message string) {
	a.o.Log.Warn("node", "reason", reason, "message", message)
	a.nodeEvent(kind, reason, message)
}

// nodeEvent writes an event for the node's administrator.
func (a *agent) nodeEvent(kind, reason, message string) {
	if a.cluster != nil && !a.o.Observe {
		a.cluster.nodeEvent(kind, reason, message)
	}
}
