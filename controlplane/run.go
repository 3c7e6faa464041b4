// Package controlplane runs a real Kubernetes control plane in this process:
// etcd, kube-apiserver, kube-controller-manager and kube-scheduler, with a
// simulated fleet of GPU nodes beside them. DESIGN.md tells why it is built the
// way it is. It is not a way to run Kubernetes for real workloads.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"berth.dev/berth/activator"
	"berth.dev/berth/controller/meter"
	"berth.dev/berth/fleet"
	"berth.dev/berth/fleet/host"
	"berth.dev/berth/fleet/kubelet"
	"berth.dev/berth/fleet/spec"
	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/internal/datadir"
	"berth.dev/berth/internal/pause"
	policies "berth.dev/berth/scheduler/admission"
	"berth.dev/berth/scheduler/stuck"
)

// Options says what to run and where. Only one control plane can run in a
// process: upstream keeps global registries.
type Options struct {
	Dir   datadir.Dir
	Fleet string    // lab, default, scale:N or a file; "" is the folder's own, else default
	Port  int       // of the API server on 127.0.0.1; 0 is the folder's last, else 16443, else a free one
	Began time.Time // when the program started: what State.Seconds counts from
	// Scheduler is SchedulerStock, SchedulerBerth or SchedulerNone; "" is the
	// folder's last, and SchedulerBerth in a new folder.
	Scheduler string
	// Kubernetes is the version whose API is served, one of buildinfo.KubernetesMinors;
	// "" is the folder's last, and the newest in a new folder.
	Kubernetes string
	// NewKeys makes new authorities and a new key of service accounts before anything is
	// started: whatever was handed out before is worthless then.
	NewKeys bool
	// AutoToleration adds to new pods that request GPUs a toleration of the taint
	// nvidia.com/gpu:NoSchedule.
	AutoToleration bool
	// OtherPods is what Berth's scheduler does about pods without GPUs on GPU nodes:
	// "open", "report" or "refuse"; "" is open. Stuck is what it does about pods that
	// hold GPUs and cannot run.
	OtherPods string
	// ReserveAfter is how long a pod waits before Berth's scheduler keeps a place for it; 0
	// keeps none, nil is the scheduler's default.
	ReserveAfter *time.Duration
	Stuck        stuck.Policy
	// UserSpeakers may name the user that they create objects for, and UserControllers create
	// objects for others: see package scheduler/admission.
	UserSpeakers, UserControllers []string
	// Notebooks is what Berth does with Notebooks: runtime.Auto or a mode of package
	// controller/notebook; "" is the folder's last, and Auto in a new folder.
	Notebooks string
	Training  string // the same for training jobs
	Serving   string // the same for InferenceServices
	Ledger    meter.Options
	// NoLedger leaves the ledger to `berth meter`.
	NoLedger bool
	// HoldScheduler, if not empty, is a file: the scheduler starts when it is
	// gone, and being ready does not wait for it.
	HoldScheduler string
	// HostProcesses are rules PATTERN=CMD: containers whose image fits a pattern run
	// that command on this machine instead of being simulated.
	HostProcesses []string
	// HostEnv names variables that those processes get beside the usual ones.
	HostEnv []string
	// Laid, if not nil, is called once, when the folder and its logs exist.
	Laid func()
	// Died, if not nil, is called when a part of Kubernetes ends the process at
	// once, which upstream does where it cannot go on.
	Died func(error)
	// Step is called for each finished step of the start, in order. It must be quick.
	Step func(name, detail string, took time.Duration)
	// Ready is called once, when the control plane and all nodes are ready.
	Ready func(datadir.State)
}

// Run starts everything, reports through o and blocks until ctx ends; then it
// stops everything, in order, and returns nil. It returns *datadir.HeldError,
// with nothing touched, when another process holds the folder.
func Run(ctx context.Context, o Options) error {
	release, err := o.Dir.Lock()
	if err != nil {
		return err
	}
	defer release()
	p, err := prepare(o)
	if err != nil {
		o.Dir.Discard()
		return err
	}
	if o.Laid != nil {
		o.Laid()
	}
	klog.OsExit = func(code int) {
		if o.Died != nil {
			o.Died(fmt.Errorf("a component of Kubernetes failed and ended the process; details in %s", o.Dir.Logs()))
		}
		os.Exit(code)
	}
	defer p.logs.Close()
	defer p.removeSocks()
	return p.run(ctx)
}

// startPatience is how long the store, and the API server, may take to be ready:
// seconds, but much longer on a machine that is busy with other things.
const startPatience = 5 * time.Minute

// plane is one run of the control plane.
type plane struct {
	Options
	state       datadir.State
	spec        spec.Fleet
	hostRules   host.Rules
	certs       *certs
	listener    net.Listener // of the API server
	socks       string       // folder of the unix sockets
	removeSocks func()
	logs        *logFile
	log         *slog.Logger
	clients     *rest.Config // the API server's loopback client
	guard       *guard       // an admission plugin of the API server
	activator   *activator.Set
	// stepBegan is when the step that is being done began.
	stepBegan time.Time
}

// run starts the store and the API server, and then what needs them, and ends all
// of it in the reverse order. Where the API server does not become ready, or is told
// to stop before it is, or does not end, it and what it needs are left to the end of
// the process, which loses nothing: upstream ends the process with a stack trace
// when its start is interrupted.
func (p *plane) run(ctx context.Context) error {
	var ends []func() // what ends what was started, first to last
	defer func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}()
	followLoad := growth().Start()
	network, err := newNetwork(p.certs)
	if err != nil {
		return err
	}
	egress, err := listenEgress(p.socks+"/egress.sock", network, p.log)
	if err != nil {
		return err
	}
	ends = append(ends, egress.Close)
	store, url, err := startStore(ctx, p.Dir, p.socks)
	if err != nil {
		return err
	}
	ends = append(ends, func() { closeStore(store) })
	parts, err := p.components(url)
	if err != nil {
		return err
	}
	apiCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	api, err := parts.startAPI(ctx, apiCtx)
	if err != nil {
		ends = nil
		stop() // heard by what has not begun to serve
		return errors.Join(stopped(ctx), err)
	}
	p.clients = api.loopback
	err = p.runClients(ctx, clients{parts, network, store, api, followLoad})
	// The API server outlives its clients, and the store outlives it.
	stop()
	select {
	case <-api.done:
		return err
	case <-time.After(apiPatience):
		ends = nil
		return errors.Join(err, fmt.Errorf("kube-apiserver did not stop within %v", apiPatience))
	}
}

// apiPatience is how long the API server may take to end: requests under way may
// take a minute.
const apiPatience = 90 * time.Second

// components parses the options of Kubernetes' parts.
func (p *plane) components(store string) (*components, error) {
	scheduler := ""
	if p.state.Scheduler == SchedulerBerth {
		scheduler = schedulerUser
	}
	p.guard = newGuard(scheduler, p.AutoToleration)
	if p.state.Scheduler != SchedulerNone { // else the scheduler that is run beside it applies policies
		p.guard.users = policies.NewUsers(append([]string{ownerUser}, p.UserSpeakers...), append([]string{controllerUser}, p.UserControllers...))
	}
	parts, err := newComponents(p.Dir, p.certs, p.guard, store, p.Dir.Join("run", "egress.yaml"), p.state.Port, p.state.Kubernetes)
	if err != nil {
		return nil, err
	}
	parts.api.SecureServing.Listener = p.listener
	return parts, nil
}

// stopped is the result of a run that was told to stop before it was ready, and
// nil where it was not.
func stopped(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("stopped before it was ready (%w); the data is kept", context.Cause(ctx))
}

// clients is what the clients of the API server are made from, or watch.
type clients struct {
	parts      *components
	network    *clusterNetwork
	store      *embed.Etcd
	api        *apiServer
	followLoad func(context.Context)
}

// runClients runs what talks to the API server (controllers, scheduler, fleet) until
// ctx or a part of the control plane ends.
func (p *plane) runClients(ctx context.Context, c clients) error {
	processes := host.Open(host.Options{Dir: string(p.Dir), Kubeconfig: p.Dir.Kubeconfig(), Pass: p.HostEnv, Log: p.log})
	defer processes.Close() // after the fleet has ended
	work, g := newGroup(ctx)
	err := p.startClients(work, g, c, processes)
	switch {
	case err == nil:
		<-work.Done()
	case ctx.Err() != nil:
		err = stopped(ctx)
	}
	err = g.close(work, endPatience, err)
	if _, ok := errors.AsType[*endedError](err); ok {
		return fmt.Errorf("%w; details in %s", err, p.Dir.Logs())
	}
	return err
}

// startClients starts them, and returns when all is ready. It returns an error, as
// soon as there is one, when ctx ends, and so when a part of g does.
func (p *plane) startClients(ctx context.Context, g *group, c clients, processes *host.Runner) error {
	g.start(ctx, "etcd", "etcd", func(ctx context.Context) error { return awaitStore(ctx, c.store) })
	g.start(ctx, "kube-apiserver", "apiserver", c.api.wait)
	client, err := kubernetes.NewForConfig(unlimited(p.clients))
	if err != nil {
		return err
	}
	if err := grantFleet(ctx, client); err != nil {
		return err
	}
	err = errors.Join(grantOwner(ctx, client), p.distrustOldKeys(ctx, client), p.grantScheduler(ctx, client), p.guardDevices(ctx, client))
	if err != nil {
		return err
	}
	if p.activator, err = p.newActivator(c.network); err != nil {
		return err
	}
	if p.holds() {
		c.parts.proxied.set.Store(p.activator)
	}
	ready := make(chan struct{})
	served := p.startControllers(ctx, g, client, ready)
	f, err := p.startFleet(ctx, g, c.network, client, processes, ready)
	if err != nil {
		return err
	}
	if err := c.parts.startManager(ctx, g); err != nil {
		return err
	}
	if err := p.startMeter(ctx, g, client, c.parts, ready); err != nil {
		return err
	}
	g.start(ctx, "load balancer", "balancer", func(ctx context.Context) error { return p.serveBalancers(ctx, c.network) })
	var queues <-chan struct{}
	switch {
	case p.state.Scheduler == SchedulerNone:
	case p.HoldScheduler != "":
		g.start(ctx, "kube-scheduler", "scheduler", func(ctx context.Context) error { return p.heldScheduler(ctx, g, c.parts) })
	default:
		if queues, err = p.startScheduler(ctx, g, c.parts); err != nil {
			return err
		}
	}
	if err := awaitAccounts(ctx, client); err != nil {
		return err
	}
	p.step("Control plane", p.made())
	for _, done := range []<-chan struct{}{served, f.Ready()} {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := p.awaitQueues(ctx, queues); err != nil {
		return err
	}
	p.step("GPU nodes", p.spec.Summary())
	g.start(ctx, "the renewal of certificates", "certificates", p.keepCertificates)
	g.start(ctx, "tuning", "tuning", func(ctx context.Context) error {
		c.followLoad(ctx)
		return nil
	})
	if err := p.ready(); err != nil {
		return err
	}
	close(ready)
	return nil
}

// startFleet starts the simulated nodes, and connects them to the API server.
func (p *plane) startFleet(ctx context.Context, g *group, network *clusterNetwork, client kubernetes.Interface, processes *host.Runner, ready <-chan struct{}) (*fleet.Fleet, error) {
	for _, w := range p.spec.Warnings {
		p.log.Warn("fleet file", "message", w)
	}
	f, err := fleet.New(fleet.Options{
		Config: p.fleetConfig(), Fleet: p.spec, Log: p.log, CABundle: p.certs.ca.pem, Install: ready,
		Commitments: p.state.Scheduler != SchedulerStock, Host: processes, HostRules: p.hostRules, Models: p.Dir.Join("models"),
	})
	if err != nil {
		return nil, err
	}
	kubelets := kubelet.New(f, time.Now)
	kubelets.Around, kubelets.Service = p.activator.Counted, p.activator.ForService
	network.parts.Store(&networkParts{client: client, fleet: f, kubelet: kubelets, activator: p.activator})
	if p.holds() {
		g.start(ctx, "activator", "activator", func(ctx context.Context) error { return runActivator(ctx, p.activator) })
	}
	g.start(ctx, "fleet", "fleet", f.Run)
	return f, nil
}

// heldScheduler starts the scheduler when the file that holds it is gone, and stays
// until ctx ends.
func (p *plane) heldScheduler(ctx context.Context, g *group, parts *components) error {
	for {
		if _, err := os.Stat(p.HoldScheduler); err != nil {
			break
		}
		if !pause.For(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
	}
	if _, err := p.startScheduler(ctx, g, parts); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// step reports a finished step with the time since the start of the last.
func (p *plane) step(name, detail string) {
	now := time.Now()
	if p.Step != nil {
		p.Step(name, detail, now.Sub(p.stepBegan))
	}
	p.stepBegan = now
}

// made says what runs in this process.
func (p *plane) made() string {
	what := "etcd, API server, controllers, scheduler " + buildinfo.Kubernetes
	if p.state.Scheduler == SchedulerNone {
		what = "etcd, API server, controllers, no scheduler " + buildinfo.Kubernetes
	}
	if p.state.Kubernetes != "" {
		what += " as " + p.state.Kubernetes
	}
	return what
}

// ready writes what others may rely on from now on, and tells the caller.
func (p *plane) ready() error {
	p.state.Ready = true
	p.state.Seconds = time.Since(p.Began).Seconds()
	p.state.Nodes, p.state.GPUs = p.spec.Count()
	if err := p.Dir.WriteState(p.state); err != nil {
		return err
	}
	if p.Ready != nil {
		p.Ready(p.state)
	}
	return nil
}
