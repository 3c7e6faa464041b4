package server

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/kubernetes"
	typedevents "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"berth.dev/berth/core/forecast"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/runs"
	"berth.dev/berth/scheduler/devices"
	"berth.dev/berth/scheduler/estimates"
	"berth.dev/berth/scheduler/gpuonly"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/server/outside"
	"berth.dev/berth/scheduler/server/report"
)

// Hooks connect a scheduler to the process that it runs in.
type Hooks struct {
	Writes, Reads transport.WrapperFunc // of its writes, and of the requests of its informers; may be nil
	Leads         func() bool           // whether it leads: it writes how long pods run only then
	Queues        func()                // called once, when Queues are served and it has read them; may be nil
}

// Setup makes a scheduler with Berth's plugins from upstream's options, as
// upstream's own Setup does, with these differences: its pods' events are told once
// (see report.Recorder) and kept nowhere (see report.NewEventWriter), their conditions say whether a new
// node would help (see report.WriteConditions), and there are hooks. Nothing is scheduled yet.
// Options without a ConfigFile must have a ComponentConfig.
func Setup(ctx context.Context, opts *options.Options, hooks Hooks) (*schedulerconfig.CompletedConfig, *scheduler.Scheduler, error) {
	if opts.ConfigFile != "" {
		cfg, err := latest.Default()
		if err != nil {
			return nil, nil, fmt.Errorf("default configuration: %w", err)
		}
		opts.ComponentConfig = cfg
	}
	if errs := opts.Validate(); len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	c, err := opts.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	eventClient, err := typedevents.NewForConfig(c.KubeConfig)
	if err != nil {
		return nil, nil, fmt.Errorf("client for events: %w", err)
	}
	c.EventBroadcaster = report.NewEventWriter(c.EventBroadcaster, eventClient)
	if err := wrapClients(c, hooks.Writes, hooks.Reads); err != nil {
		return nil, nil, err
	}
	cc := c.Complete()
	told := report.NewHistory(time.Now())
	recorder := func(name string) events.EventRecorderLogger {
		return &report.Recorder{EventRecorderLogger: cc.EventBroadcaster.NewRecorder(name), Told: told}
	}
	if err := setGates(); err != nil {
		return nil, nil, err
	}
	plugins := runtime.Registry{gpuonly.Name: gpuonly.New}
	made, shared := devices.WithCluster(podInfo)
	maps.Copy(plugins, made)
	shared.Quota.OnRead = hooks.Queues
	have := &cc.ComponentConfig
	s, err := scheduler.New(ctx, cc.Client, cc.InformerFactory, cc.DynInformerFactory, recorder,
		scheduler.WithComponentConfigVersion(have.APIVersion),
		scheduler.WithKubeConfig(cc.KubeConfig),
		scheduler.WithProfiles(have.Profiles...),
		scheduler.WithPercentageOfNodesToScore(have.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(plugins),
		scheduler.WithPodMaxBackoffSeconds(have.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(have.PodInitialBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(cc.PodMaxInUnschedulablePodsDuration),
		scheduler.WithExtenders(have.Extenders...),
		scheduler.WithParallelism(have.Parallelism),
	)
	if err != nil {
		return nil, nil, err
	}
	devices.NodesFrom(nodesOf(ctx, s))
	nodes := cc.InformerFactory.Core().V1().Nodes()
	shared.Waits.Offers(followPools(ctx, cc.Client, nodes.Lister(), nodes.Informer().HasSynced))
	go shared.Times.Remember(ctx, cc.Client.CoreV1().ConfigMaps(runs.Namespace), hooks.Leads)
	go measure(ctx, &cc, shared, hooks.Leads)
	outside.Use(s, cc.InformerFactory.Core().V1().Pods().Lister(), shared.State)
	report.WriteConditions(s, cc.Client, shared.Waits, report.NewSentences(nodesOf(ctx, s), cc.InformerFactory))
	return &cc, s, nil
}

// measure measures the estimates of starts.
func measure(ctx context.Context, cc *schedulerconfig.CompletedConfig, shared *nodeindex.Cluster, leads func() bool) {
	pods, nodes := cc.InformerFactory.Core().V1().Pods(), cc.InformerFactory.Core().V1().Nodes()
	synced := []toolscache.InformerSynced{pods.Informer().HasSynced, nodes.Informer().HasSynced}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	e := estimates.New()
	e.Register()
	e.Run(ctx, &estimates.Source{
		Pods: func() ([]*v1.Pod, error) { return pods.Lister().List(labels.Everything()) },
		Around: func(all []*v1.Pod, came *forecast.Outcomes) *explain.Situation {
			s := &explain.Situation{Pods: all, RunTimes: shared.Times.Copy(), Outcomes: came}
			s.Nodes, _ = nodes.Lister().List(labels.Everything()) // a store of this process
			if q := shared.Quota.Situation(); q != nil {
				q.Nodes, q.Pods, q.Now = s.Nodes, s.Pods, time.Now()
				s.Queues, s.Owners = queues.Read(q), q.Owners
			}
			return s
		},
		Maps: cc.Client.CoreV1().ConfigMaps(runs.Namespace), Leads: leads,
	})
}

// wrapClients puts writes before the requests of the scheduler, and reads before
// those of its informers. Clients for events and the lease are made already, and do
// without.
func wrapClients(c *schedulerconfig.Config, writes, reads transport.WrapperFunc) error {
	client := func(wrap transport.WrapperFunc) (*rest.Config, kubernetes.Interface, error) {
		cfg := rest.CopyConfig(c.KubeConfig)
		cfg.Wrap(wrap)
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return nil, nil, fmt.Errorf("client: %w", err)
		}
		return cfg, client, nil
	}
	if writes == nil && reads == nil {
		return nil
	}
	informing := c.Client
	if reads != nil {
		var err error
		if _, informing, err = client(reads); err != nil {
			return err
		}
	}
	if writes != nil {
		var err error
		if c.KubeConfig, c.Client, err = client(writes); err != nil {
			return err
		}
	}
	c.InformerFactory = scheduler.NewInformerFactory(informing, 0)
	return nil
}

// podInfo makes what NodeInfos keep of a pod.
func podInfo(pod *v1.Pod) (fwk.PodInfo, error) {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil, err
	}
	return info, nil
}

// nodesOf lists the nodes of a scheduler as its cache has them, in a snapshot of
// its own: the one of the scheduling cycle is as old as the last pod.
func nodesOf(ctx context.Context, s *scheduler.Scheduler) func() ([]fwk.NodeInfo, error) {
	var mu sync.Mutex
	snapshot := cache.NewEmptySnapshot()
	return func() ([]fwk.NodeInfo, error) {
		mu.Lock()
		defer mu.Unlock()
		if err := s.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
			return nil, fmt.Errorf("list the nodes: %w", err)
		}
		return snapshot.NodeInfos().List()
	}
}
