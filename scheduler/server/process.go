package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/pkg/scheduler"

	"berth.dev/berth/scheduler/admission"
	"berth.dev/berth/scheduler/server/leader"
	"berth.dev/berth/scheduler/state"
	"berth.dev/berth/scheduler/stuck"
)

// closing is how long writes on their way are waited for at the end. A lease is
// given back only when they have been answered.
const closing = 5 * time.Second

// ErrLostLease says that the scheduler could not renew its lease, and another may
// lead by now.
var ErrLostLease = errors.New("the lease was lost; another scheduler may lead now")

// process is one run of a scheduler.
type process struct {
	cc      *schedulerconfig.CompletedConfig
	sched   *scheduler.Scheduler
	gate    *leader.Gate
	list    leader.Lister
	synced  chan struct{}         // closed when the scheduler has seen every object that was there
	failed  chan error            // why it cannot lead
	stuck   func(context.Context) // acts on pods that hold GPUs and cannot run
	largest *admission.LargestGPU // for the policies that explain requests; nil leaves them unchanged
	reads   *lists                // what the informers are answered
	// guard applies the policies that guard devices. It is called before anything is
	// bound, and once all there is has been seen: a scheduler that is refused has
	// changed nothing.
	guard func(context.Context) error

	release func() // ends the election; the lease is given back if lock lets it
	lock    *leader.Lease
}

// newProcess makes a process that runs s; explain is whether it applies the
// admission policies that explain requests.
func newProcess(cc *schedulerconfig.CompletedConfig, s *scheduler.Scheduler, g *leader.Gate, explain bool, held stuck.Policy) (*process, error) {
	client, err := metadata.NewForConfig(cc.KubeConfig)
	if err != nil {
		return nil, fmt.Errorf("client for metadata: %w", err)
	}
	p := &process{
		cc: cc, sched: s, gate: g, list: client.Resource(v1.SchemeGroupVersion.WithResource("pods")).List,
		synced: make(chan struct{}), failed: make(chan error, 1),
	}
	if p.stuck, err = WatchStuck(cc, held); err != nil {
		return nil, err
	}
	if explain {
		p.largest = admission.NewLargestGPU()
		if _, err := cc.InformerFactory.Core().V1().Nodes().Informer().AddEventHandler(p.largest.Handler()); err != nil {
			return nil, fmt.Errorf("watch nodes: %w", err)
		}
	}
	return p, nil
}

// run schedules until ctx ends. What it starts ends with work.
func (p *process) run(ctx, work context.Context, l net.Listener) error {
	p.cc.EventBroadcaster.StartRecordingToSink(work.Done())
	defer p.cc.EventBroadcaster.Shutdown()
	stopServing := func() {}
	if l != nil {
		var err error
		if stopServing, err = p.serve(ctx, l); err != nil {
			return err
		}
	}
	defer stopServing()
	if err := p.sync(ctx, work); err != nil || ctx.Err() != nil {
		return err // told to stop before every object was seen: who binds now may give devices twice
	}
	if err := p.guard(ctx); err != nil {
		return err
	}
	if p.cc.LeaderElection == nil {
		return p.alone(ctx, work)
	}
	return p.elected(ctx, work)
}

// serve serves metrics and health.
func (p *process) serve(ctx context.Context, l net.Listener) (stop func(), err error) {
	var health []healthz.HealthChecker
	if p.cc.LeaderElection != nil {
		health = append(health, p.cc.LeaderElection.WatchDog)
	}
	ready := append(slices.Clip(health), healthz.NewShutdownHealthz(ctx.Done()), healthz.NamedCheck("sched-handler-sync", func(*http.Request) error {
		select {
		case <-p.synced:
			return nil
		default:
			return errors.New("not every object has been seen yet")
		}
	}))
	handler := endpoints(health, ready)
	klog.InfoS("Serving metrics and health", "address", l.Addr().String(), "tls", p.cc.SecureServing != nil)
	if p.cc.SecureServing == nil {
		return serve(l, nil, handler)
	}
	return serve(l, p.cc.SecureServing, secured(handler, p.cc))
}

// sync starts the watches and returns when the scheduler has seen every object, or
// with an *unservedError where the API server does not have what it watches.
func (p *process) sync(ctx, work context.Context) error {
	wait, cancel := context.WithCancelCause(work)
	defer context.AfterFunc(ctx, func() { cancel(nil) })()
	defer cancel(nil)
	p.reads.told(cancel)
	defer p.reads.told(nil)
	p.cc.InformerFactory.Start(work.Done())
	p.cc.DynInformerFactory.Start(work.Done())
	p.cc.InformerFactory.WaitForCacheSync(wait.Done())
	p.cc.DynInformerFactory.WaitForCacheSync(wait.Done())
	err := p.sched.WaitForHandlersSync(wait)
	if ctx.Err() != nil {
		return nil
	}
	if missing, ok := errors.AsType[*unservedError](context.Cause(wait)); ok {
		return missing
	}
	if err != nil {
		return fmt.Errorf("see every object: %w", err)
	}
	close(p.synced)
	return nil
}

// alone schedules without an election.
func (p *process) alone(ctx, work context.Context) error {
	p.gate.Open(func() bool { return true })
	go p.schedule(work)
	<-ctx.Done()
	p.drain(ctx)
	return nil
}

// elected schedules when and as long as this process leads.
func (p *process) elected(ctx, work context.Context) error {
	cfg := *p.cc.LeaderElection
	cfg.ReleaseOnCancel, cfg.Name = true, "berth-scheduler" // the name is for metrics
	p.lock = &leader.Lease{Interface: cfg.Lock}
	p.gate.Sign(admission.Signature(cfg.Lock.Identity()))
	cfg.Lock = p.lock
	var elector *leaderelection.LeaderElector
	cfg.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(led context.Context) { p.lead(led, work, func() bool { return fresh(elector, &cfg) }) },
		OnStoppedLeading: func() {},
	}
	elector, err := leaderelection.NewLeaderElector(cfg)
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	if cfg.WatchDog != nil {
		cfg.WatchDog.SetLeaderElection(elector)
	}
	election, release := context.WithCancel(context.WithoutCancel(ctx))
	p.release = release
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(election)
	}()
	select {
	case <-ctx.Done():
		p.retire(ctx, over)
		return nil
	case err := <-p.failed:
		p.retire(ctx, over)
		return err
	case <-over:
		ended, cancel := context.WithCancel(ctx)
		cancel()
		p.gate.Close(ended) // at once: others may lead
		return ErrLostLease
	}
}

// lead schedules as the leader. led ends with the leadership.
func (p *process) lead(led, work context.Context, fresh func() bool) {
	began := time.Now()
	err := leader.Fenced(led, p.known)
	if err == nil {
		err = leader.CatchUp(led, p.list, p.cached)
	}
	if led.Err() != nil {
		return
	}
	if err != nil {
		p.failed <- err
		return
	}
	klog.InfoS("Leading", "caughtUpIn", time.Since(began))
	p.gate.Open(fresh)
	p.schedule(work)
}

// cached returns the version of a pod in the scheduler's cache.
func (p *process) cached(uid types.UID) (version string, ok bool) {
	pod, err := p.sched.Cache.GetPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
	if err != nil {
		return "", false
	}
	return pod.ResourceVersion, true
}

// known reports whether the API server takes this process for the leader: it binds a pod that does not exist, as a dry run. Where no policy
// keeps bindings to the leader, it always does.
func (p *process) known(ctx context.Context) (bool, error) {
	const pod = "berth-scheduler-leads"
	b := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: v1.ObjectReference{Kind: "Node", Name: pod}}
	err := p.cc.Client.CoreV1().Pods(metav1.NamespaceSystem).Bind(ctx, b, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case admission.RefusedByLeader(err):
		return false, nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource"):
		return false, err // an API server that has just started may not have read the rights yet
	case err == nil || state.Refused(err):
		return true, nil
	}
	return false, err
}

// schedule schedules, and keeps what goes with it, until work ends.
func (p *process) schedule(work context.Context) {
	if p.largest != nil {
		go p.largest.Run(work, func(ctx context.Context, largestMiB int64) error {
			return admission.ApplyRequests(ctx, p.cc.Client, largestMiB)
		}, func(err error) { klog.ErrorS(err, "Requests for GPUs are not explained at admission") })
	}
	go p.stuck(work)
	p.sched.Run(work)
}

// fresh says whether the lease is this process's, and was renewed within the
// deadline, which is shorter than the time after which another may take it.
func fresh(e *leaderelection.LeaderElector, cfg *leaderelection.LeaderElectionConfig) bool {
	return e.IsLeader() && e.Check(cfg.RenewDeadline-cfg.LeaseDuration) == nil
}

// retire ends the election, and gives the lease back if every write has been
// answered; else it runs out. over is closed when the election has ended.
func (p *process) retire(ctx context.Context, over <-chan struct{}) {
	answered := p.drain(ctx)
	p.lock.Free.Store(answered)
	p.release()
	<-over
	klog.InfoS("Stopped", "leaseGivenBack", answered)
}

// drain ends the writes of this process, and says whether all were answered.
func (p *process) drain(ctx context.Context) bool {
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	answered := p.gate.Close(wait)
	if !answered {
		klog.InfoS("Stopping before every write was answered: the lease is left to run out", "waited", closing)
	}
	return answered
}
