package server

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	typedevents "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"berth.dev/berth/scheduler/devices"
	"berth.dev/berth/scheduler/strays"
)

// Setup makes a scheduler with Berth's plugins from upstream's options, as
// upstream's own Setup does, with two differences: its pods' events are told once
// (see quiet) and kept nowhere (see eventWriter), and its writes go through wrap, where that is not nil. Nothing
// runs yet. Options without a ConfigFile must have a ComponentConfig.
func Setup(ctx context.Context, opts *options.Options, wrap transport.WrapperFunc) (*schedulerconfig.CompletedConfig, *scheduler.Scheduler, error) {
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
	c.EventBroadcaster = newEventWriter(c.EventBroadcaster, eventClient)
	if wrap != nil {
		// Clients for events and the lease are made already, and do without it.
		c.KubeConfig = rest.CopyConfig(c.KubeConfig)
		c.KubeConfig.Wrap(wrap)
		if c.Client, err = kubernetes.NewForConfig(c.KubeConfig); err != nil {
			return nil, nil, fmt.Errorf("client: %w", err)
		}
		c.InformerFactory = scheduler.NewInformerFactory(c.Client, 0)
	}
	cc := c.Complete()
	told := newTold(time.Now())
	recorder := func(name string) events.EventRecorderLogger {
		return &quiet{EventRecorderLogger: cc.EventBroadcaster.NewRecorder(name), told: told}
	}
	// With it, every member of a gang that waits for the others is written with its
	// node just before it is bound there: one write more for each.
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.NominatedNodeNameForExpectation): false}); err != nil {
		return nil, nil, fmt.Errorf("configure kube-scheduler: %w", err)
	}
	plugins := runtime.Registry{strays.Name: strays.New}
	maps.Copy(plugins, devices.Plugins())
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
	return &cc, s, nil
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
