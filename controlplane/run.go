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
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"berth.dev/berth/fleet"
	"berth.dev/berth/fleet/host"
	"berth.dev/berth/fleet/kubelet"
	"berth.dev/berth/fleet/spec"
	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/internal/datadir"
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
	// AutoToleration gives new pods that ask for GPUs a toleration of the taint
	// nvidia.com/gpu:NoSchedule.
	AutoToleration bool
	// OtherPods is what Berth's scheduler does about pods without GPUs on GPU nodes:
	// "open", "report" or "refuse"; "" is open. Stuck is what it does about pods that
	// hold GPUs and cannot run.
	OtherPods string
	Stuck     stuck.Policy
	// Notebooks is what Berth does with Notebooks: server.Auto or a mode of package
	// controller/notebook; "" is the folder's last, and Auto in a new folder.
	Notebooks string
	// HoldScheduler, if not empty, is a file: the scheduler starts when it is
	// gone, and being ready does not wait for it.
	HoldScheduler string
	// HostProcesses are rules PATTERN=CMD: containers whose image fits a pattern run
	// that command on this machine instead of being simulated.
	HostProcesses []string
	// Laid, if not nil, is told once, when the folder and its logs are there.
	Laid func()
	// Died, if not nil, is told when a part of Kubernetes ends the process at
	// once, which upstream does where it cannot go on.
	Died func(error)
	// Step is told each finished step of the start, in order. It must be quick.
	Step func(name, detail string, took time.Duration)
	// Ready is told once, when the control plane and all nodes are ready.
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
			o.Died(fmt.Errorf("a part of Kubernetes could not go on and ended the process; details in %s", o.Dir.Logs()))
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
	failed      chan error   // the first component that ended by itself
	clients     *rest.Config // the API server's loopback client
	guard       *guard       // an admission plugin of the API server
	stopAPI     func()
	// stepBegan is when the step that is being done began.
	stepBegan time.Time
}

// run starts the store and the API server, and then what needs them. Told to
// stop before the API server is ready it returns at once and leaves both to the
// end of the process, which loses nothing: upstream ends the process with a
// stack trace when its start is interrupted.
func (p *plane) run(ctx context.Context) error {
	followLoad := startTuning()
	network, err := newNetwork(p.certs)
	if err != nil {
		return err
	}
	egress, err := listenEgress(p.socks+"/egress.sock", network, p.log)
	if err != nil {
		return err
	}
	store, url, err := startStore(ctx, p.Dir, p.socks)
	if err != nil {
		return err
	}
	scheduler := ""
	if p.state.Scheduler == SchedulerBerth {
		scheduler = schedulerUser
	}
	p.guard = newGuard(scheduler, p.AutoToleration)
	parts, err := newComponents(p.Dir, p.certs, p.guard, url, p.Dir.Join("run", "egress.yaml"), p.state.Port)
	if err != nil {
		return err
	}
	parts.api.SecureServing.Listener = p.listener
	apiCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stopAPI = stop
	clients, apiDone, err := parts.startAPI(ctx, apiCtx)
	if err != nil {
		return errors.Join(stopped(ctx), err)
	}
	p.clients = clients
	err = p.runClients(ctx, parts, network, followLoad)
	// The API server outlives its clients, and the store outlives it.
	p.stopAPI()
	<-apiDone
	closeStore(store)
	egress.Close()
	return err
}

// stopped is the result of a run that was told to stop before it was ready, and
// nil where it was not.
func stopped(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("stopped before it was ready (%w); what is in the folder is kept", context.Cause(ctx))
}

// runClients runs what talks to the API server: controllers, scheduler, fleet.
func (p *plane) runClients(ctx context.Context, parts *components, network *clusterNetwork, followLoad func(context.Context)) error {
	client, err := kubernetes.NewForConfig(unlimited(p.clients))
	if err != nil {
		return err
	}
	if err := grantFleet(ctx, client); err != nil {
		return err
	}
	if err := errors.Join(p.grantScheduler(ctx, client), p.guardDevices(ctx, client)); err != nil {
		return err
	}
	processes := host.Open(host.Options{Dir: string(p.Dir), Kubeconfig: p.Dir.Kubeconfig(), Log: p.log})
	defer processes.Close() // after the fleet has ended
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running group
	defer running.Wait()
	defer stop()

	ready := make(chan struct{})
	served := p.startControllers(ctx, client, ready, &running)
	for _, w := range p.spec.Warnings {
		p.log.Warn("fleet file", "message", w)
	}
	f, err := fleet.New(fleet.Options{
		Config: p.fleetConfig(), Fleet: p.spec, Log: p.log, CABundle: p.certs.ca.pem, Install: ready,
		Commitments: p.state.Scheduler != SchedulerStock, Host: processes, HostRules: p.hostRules,
	})
	if err != nil {
		return err
	}
	network.parts.Store(&networkParts{client: client, fleet: f, kubelet: kubelet.New(f, time.Now)})
	fleetEnded := running.ended(ctx, p)
	labelled(ctx, "fleet", func(ctx context.Context) { fleetEnded("fleet", f.Run(ctx)) })
	if err := parts.startManager(ctx, running.ended(ctx, p)); err != nil {
		return err
	}
	switch {
	case p.state.Scheduler == SchedulerNone:
	case p.HoldScheduler != "":
		running.Go(func() { p.heldScheduler(ctx, parts, running.ended(ctx, p)) })
	default:
		if err := p.startScheduler(ctx, parts, running.ended(ctx, p)); err != nil {
			return err
		}
	}
	if err := p.awaitAccounts(ctx, client); err != nil {
		return err
	}
	p.step("Control plane", p.made()+" "+buildinfo.Kubernetes)
	for _, done := range []<-chan struct{}{served, f.Ready()} {
		select {
		case <-done:
		case <-ctx.Done():
			return stopped(ctx)
		case err := <-p.failed:
			return err
		}
	}
	p.step("GPU nodes", p.spec.Summary())
	running.Go(func() { followLoad(ctx) })
	if err := p.ready(); err != nil {
		return err
	}
	close(ready)
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.failed:
		return err
	}
}

// heldScheduler starts the scheduler when the file that holds it is gone.
func (p *plane) heldScheduler(ctx context.Context, parts *components, ended func(string, error)) {
	for {
		if _, err := os.Stat(p.HoldScheduler); err != nil {
			break
		}
		select {
		case <-ctx.Done():
			ended("kube-scheduler", ctx.Err())
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := p.startScheduler(ctx, parts, ended); err != nil {
		p.ended(ctx, "kube-scheduler", err)
	}
}

// ended notes a component that ended by itself: everything stops then.
func (p *plane) ended(ctx context.Context, name string, err error) {
	if ctx.Err() != nil {
		return
	}
	select {
	case p.failed <- fmt.Errorf("%s ended: %w; details in %s", name, err, p.Dir.Logs()):
	default:
	}
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
	if p.state.Scheduler == SchedulerNone {
		return "etcd, API server, controllers, no scheduler"
	}
	return "etcd, API server, controllers, scheduler"
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
