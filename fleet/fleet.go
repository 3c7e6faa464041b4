package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"berth.dev/berth/fleet/host"
	"berth.dev/berth/fleet/kubelet"
	"berth.dev/berth/fleet/spec"
	"berth.dev/berth/fleet/system"
	"berth.dev/berth/internal/pause"
)

// Options say what a Fleet is made of.
type Options struct {
	// Config is the fleet's own identity at the API server. The fleet makes
	// from it clients that speak protobuf and have no rate limit.
	Config *rest.Config
	// Client is used instead of one made from Config; then Config may be nil,
	// and no system objects are created. Tests give a fake.
	Client kubernetes.Interface
	// Fleet is the nodes to create. Nodes that the API server has already stay
	// as they are there.
	Fleet spec.Fleet
	// Install, if not nil, holds the system objects back until it is closed: a
	// control plane that starts has more urgent work.
	Install <-chan struct{}
	// Commitments says that Berth's scheduler places the pods, so a share of
	// a GPU by size (nvidia.com/gpu-memory, a fraction) is given only where it is
	// committed. Without it the nodes give nvidia.com/gpu-memory out themselves.
	Commitments bool
	// Host runs the processes that HostRules allow in place of containers. Nil is
	// that every container is simulated. The caller closes it after Run.
	Host      HostRunner
	HostRules host.Rules
	// Models is a folder of the fleet's, emptied when it starts, in which models are downloaded that are on this machine's loopback
	// network; their files do not stay there. "" is that all downloads of models are simulated.
	Models string
	// Now is the clock; nil is time.Now. Timers always run on the real one.
	Now func() time.Time
	// Log gets what a person should know; nil is slog.Default.
	Log *slog.Logger
	// CABundle is the PEM of the authority of the metrics API's certificate.
	CABundle []byte
}

const (
	podWorkers  = 16 // writes of pods and nodes that run at once
	nodeWorkers = 16 // nodes that are registered at once
)

// Fleet is the simulated nodes of one cluster. Its exported methods are safe
// for concurrent use.
type Fleet struct {
	client kubernetes.Interface
	agg    aggregator.Interface // nil with Options.Client
	spec   spec.Fleet
	now    func() time.Time
	log    *slog.Logger

	objectsToApply []runtime.Object
	install        <-chan struct{} // closed when they may be applied
	system         bool            // the fleet has device plugin pods
	commitments    bool            // see Options.Commitments
	pullTime       time.Duration   // of an image new to a node
	host           HostRunner      // nil is that nothing runs on this machine
	hostRules      host.Rules
	loopbacks      loopbacks // of pods whose processes run on this machine
	hung           hungJobs
	models         string          // see Options.Models
	running        context.Context //nolint:containedctx // of Run, for what it starts
	tasks          *sync.WaitGroup // of Run

	ips     *addresses
	timers  *timers
	queue   workqueue.TypedInterface[task]
	events  *events
	objects *objects
	files   *files // of volumes
	ready   chan struct{}
	synced  chan struct{} // the pods were listed once
	looked  chan struct{} // it is known which system objects are missing
	once    sync.Once

	mu    sync.RWMutex
	nodes map[string]*node
}

var (
	_ kubelet.Runtime = (*Fleet)(nil)
	_ kubelet.Exiter  = (*Fleet)(nil)
)

// New makes a fleet that does nothing until Run. Errors: a Config that no
// client can be made of.
func New(o Options) (*Fleet, error) {
	f := &Fleet{
		client: o.Client, spec: o.Fleet, now: o.Now, log: o.Log, system: o.Fleet.System, commitments: o.Commitments, host: o.Host, hostRules: o.HostRules, models: o.Models, ips: newAddresses(),
		queue: workqueue.NewTyped[task](), ready: make(chan struct{}), synced: make(chan struct{}), looked: make(chan struct{}), nodes: map[string]*node{},
	}
	if f.now == nil {
		f.now = time.Now
	}
	if f.log == nil {
		f.log = slog.Default()
	}
	if len(o.Fleet.Nodes) < pullFleet {
		f.pullTime = pullTime
	}
	if f.client == nil {
		if err := f.connect(o.Config); err != nil {
			return nil, err
		}
		if f.install = o.Install; f.install == nil {
			now := make(chan struct{})
			close(now)
			f.install = now
		}
		f.objectsToApply = system.Objects(system.Options{GPU: o.Fleet.System, CABundle: o.CABundle})
	}
	f.timers = newTimers(f.now, func(t task) { f.queue.Add(t) })
	f.events = newEvents(f.client, f.now)
	f.files = &files{byClaim: map[string]string{}}
	f.objects = &objects{fleet: f, data: map[objectKey]objectData{}}
	return f, nil
}

// connect makes the clients: typed ones in protobuf, without limits.
func (f *Fleet) connect(c *rest.Config) error {
	if c == nil {
		return errors.New("a fleet needs a Config or a Client")
	}
	c = rest.CopyConfig(c)
	c.QPS, c.Burst, c.RateLimiter = -1, 0, nil
	c.UserAgent = "berth-fleet"
	plain := rest.CopyConfig(c)
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	var err error
	if f.client, err = kubernetes.NewForConfig(c); err != nil {
		return fmt.Errorf("make the fleet's client: %w", err)
	}
	if f.agg, err = aggregator.NewForConfig(plain); err != nil {
		return fmt.Errorf("make the fleet's aggregator client: %w", err)
	}
	return nil
}

// Run registers the nodes, creates the system objects, and works until ctx
// ends; then it waits for all that it started, and returns nil. It is an error
// if a node of the fleet has the name of one that is not simulated.
func (f *Fleet) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer f.queue.ShutDown()
	defer cancel()
	f.running, f.tasks = ctx, &wg
	if f.models != "" {
		if err := os.RemoveAll(f.models); err != nil {
			return fmt.Errorf("empty the folder of models: %w", err)
		}
	}
	if f.objectsToApply != nil {
		wg.Go(func() { f.installSystem(ctx) })
	} else {
		close(f.looked)
	}
	for range podWorkers {
		wg.Go(func() { f.work(ctx) })
	}
	for range eventWriters {
		wg.Go(func() { f.events.run(ctx) })
	}
	wg.Go(func() { f.timers.run(ctx) })
	if err := f.register(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	f.watch(ctx, &wg)
	wg.Go(func() { f.keepLeases(ctx) })
	for _, done := range []<-chan struct{}{f.synced, f.looked} {
		select {
		case <-done:
		case <-ctx.Done():
			return nil
		}
	}
	close(f.ready)
	<-ctx.Done()
	return nil
}

// Ready is closed when all nodes are registered, Ready and have their GPUs
// allocatable, and the pods on them are known.
func (f *Fleet) Ready() <-chan struct{} { return f.ready }

// work runs tasks until the queue is shut down.
func (f *Fleet) work(ctx context.Context) {
	for {
		t, down := f.queue.Get()
		if down {
			return
		}
		if ctx.Err() == nil {
			t.run(ctx)
		}
		f.queue.Done(t)
	}
}

// installSystem creates those system objects that are missing when the fleet starts. One that a user deletes from the moment on
// that the fleet is ready stays deleted until the next start.
func (f *Fleet) installSystem(ctx context.Context) {
	var missing []runtime.Object
	f.persist(ctx, func() (err error) {
		missing, err = system.Missing(ctx, f.client, f.agg, f.objectsToApply)
		return err
	})
	close(f.looked)
	select {
	case <-f.install:
		f.persist(ctx, func() error { return system.Apply(ctx, f.client, f.agg, f.objectsToApply, missing) })
	case <-ctx.Done():
	}
}

// persist does something with system objects until it succeeds or ctx ends: the API server may still be starting.
func (f *Fleet) persist(ctx context.Context, do func() error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		f.log.Debug("system objects are not all there yet", "error", err)
		if !pause.For(ctx, wait) {
			return
		}
	}
}

// find returns a node by name, nil if it is not one of the fleet's.
func (f *Fleet) find(name string) *node {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.nodes[name]
}

// sorted returns the nodes by name.
func (f *Fleet) sorted() []*node {
	f.mu.RLock()
	defer f.mu.RUnlock()
	out := make([]*node, 0, len(f.nodes))
	for _, n := range f.nodes {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
	return out
}

func (f *Fleet) size() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.nodes)
}

// PodByIP returns the pod that has a pod IP of the simulated network.
func (f *Fleet) PodByIP(ip string) (node, namespace, name string, ok bool) {
	ref, ok := f.ips.podByIP(ip)
	return ref.node, ref.namespace, ref.name, ok
}

// NodeByIP returns the simulated node that has an IP.
func (f *Fleet) NodeByIP(ip string) (node string, ok bool) { return f.ips.nodeByIP(ip) }

// Simulated reports whether a host, a DNS name or an IP without port, is one of
// the fleet: a node of its, or an address in the pod range of one. Traffic to
// it must not leave the process.
func (f *Fleet) Simulated(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if name, ok := strings.CutSuffix(host, spec.Domain); ok {
		return f.find(name) != nil
	}
	return f.ips.ours(host)
}
