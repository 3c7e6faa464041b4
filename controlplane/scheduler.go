package controlplane

import (
	"context"
	"fmt"
	"time"

	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"

	"berth.dev/berth/scheduler/server"
)

// The schedulers that Options.Scheduler can name.
const (
	SchedulerStock = "stock" // the unmodified kube-scheduler
	SchedulerBerth = "berth" // the same with Berth's plugins
	SchedulerNone  = "none"  // none in this process: one is run beside it
)

// schedulerUser is who the scheduler is to the API server.
const schedulerUser = "system:kube-scheduler"

// chooseScheduler returns the scheduler that is asked for, else the one that the
// folder had, else Berth's. A folder that had none was made before there was a
// choice, and keeps the stock one.
func chooseScheduler(asked, had string, fresh bool) (string, error) {
	switch {
	case asked == SchedulerStock || asked == SchedulerBerth || asked == SchedulerNone:
		return asked, nil
	case asked != "":
		return "", fmt.Errorf("scheduler %q: must be %s, %s, or %s", asked, SchedulerStock, SchedulerBerth, SchedulerNone)
	case fresh:
		return SchedulerBerth, nil
	case had == "":
		return SchedulerStock, nil
	}
	return had, nil
}

// schedulerConfig is the scheduler's configuration file. A file is needed
// because the scheduler replaces what was set on its options by defaults.
// Berth's plugins schedule under both names; the profiles are in server.
func schedulerConfig(kubeconfig, which, otherPods string, reserveAfter *time.Duration) string {
	s := server.Settings{Kubeconfig: kubeconfig}
	if which == SchedulerBerth {
		s.Names, s.OtherPods, s.ReserveAfter = []string{"default-scheduler", "berth-scheduler"}, otherPods, reserveAfter
	}
	return server.Configuration(s)
}

// queuesPatience is how long being ready waits for the scheduler to read Queues once they are served.
const queuesPatience = 20 * time.Second

// awaitQueues waits until the scheduler has read Queues, if it does and they are served: a pod that comes before is counted in none.
func (p *plane) awaitQueues(ctx context.Context, queues <-chan struct{}) error {
	if queues == nil || p.state.Scheduler != SchedulerBerth || !p.controls() {
		return nil
	}
	select {
	case <-queues:
	case <-time.After(queuesPatience):
		p.log.Warn("the scheduler has not read the Queues yet; pods that come now are counted in none", "after", queuesPatience)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// startScheduler starts kube-scheduler, with Berth's plugins or as it is, and
// returns when it has seen every object that was there. queues is closed when it has
// read the Queues.
func (p *plane) startScheduler(ctx context.Context, g *group, parts *components) (queues <-chan struct{}, err error) {
	read := make(chan struct{})
	setup := func() (*schedulerconfig.CompletedConfig, *kubescheduler.Scheduler, error) {
		return scheduler.Setup(ctx, parts.sched)
	}
	if p.state.Scheduler == SchedulerBerth {
		setup = func() (*schedulerconfig.CompletedConfig, *kubescheduler.Scheduler, error) {
			return server.Setup(ctx, parts.sched, server.Hooks{Leads: func() bool { return true }, Queues: func() { close(read) }})
		}
	}
	cfg, s, err := setup()
	act := func(context.Context) {}
	if err == nil && p.state.Scheduler == SchedulerBerth {
		if err = p.guard.follow(cfg.InformerFactory.Core().V1().Nodes().Informer()); err == nil {
			act, err = server.WatchStuck(cfg, p.Stuck)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("configure kube-scheduler: %w", err)
	}
	g.start(ctx, "kube-scheduler", "scheduler", func(ctx context.Context) error { return scheduler.Run(ctx, cfg, s) })
	g.start(ctx, "the watch of stuck pods", "scheduler", func(ctx context.Context) error {
		act(ctx)
		<-ctx.Done() // a policy that does nothing returns at once
		return nil
	})
	if err := s.WaitForHandlersSync(ctx); err != nil {
		return nil, fmt.Errorf("start kube-scheduler: %w", err)
	}
	return read, nil
}
