package idle

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/idle"
	"berth.dev/berth/kube/exporter"
)

// Options is what the loop needs to know. The zero value stops nothing but what
// says in an annotation that it is to be stopped.
type Options struct {
	// Default is the policy of notebooks of which neither they nor their namespace
	// say anything: see rules.FromKubeflow. The zero value is rules.Off.
	Default rules.Policy
	// Domain is the cluster's DNS domain; "" is cluster.local.
	Domain string
	// Proxied asks notebooks through the API server instead of by their name, as
	// Kubeflow's DEV=true does: from outside of the cluster's network.
	Proxied bool
	// Room says who waits for what notebooks hold; nil is that none gives way.
	Room Room
	// Mode is asked before every pass; in mode Off nothing is done. Nil is Own.
	Mode func() runtime.Mode
	// Prober asks notebooks and GPUs; nil is over HTTP, as the above says.
	Prober Prober
	// Now is the clock, with its steady reading; nil is time.Now.
	Now func() time.Time
}

// Prober looks at one notebook. Its methods are called from several goroutines at
// once, and end with ctx.
type Prober interface {
	// Server asks what the notebook serves.
	Server(ctx context.Context, t Target) rules.Server
	// CPU reads the CPU time that the pod of a notebook uses.
	CPU(ctx context.Context, namespace, name string) rules.CPU
	// GPUs reads the devices that the pod holds.
	GPUs(ctx context.Context, pod *corev1.Pod) rules.GPUs
}

// Target is a notebook whose server is asked.
type Target struct {
	Namespace, Name string
	Token           string // what the server asks for; "" is nothing
	Type            string // Kubeflow's server type: "" and "jupyter", "group-one" (VS Code), "group-two" (RStudio)
	Rewrite         string // path that requests for the notebook's own are rewritten to; "" is its own
}

// Name is the loop's name, as the field manager and source of events.
const Name = "berth-notebook-idle"

// Add adds the loop for notebooks to a manager, whose cache should have notebook.CacheOptions
// and whose scheme must have kubeflow.AddToScheme and client-go's. It also watches
// the metadata of namespaces, and the pods of JupyterHubs.
func Add(mgr manager.Manager, o Options) error {
	l, err := newLoop(mgr, o)
	if err != nil {
		return err
	}
	if l.hubs, err = watchHubs(mgr); err != nil {
		return err
	}
	return mgr.Add(l)
}

// newLoop makes a loop that has the manager's cache and client.
func newLoop(mgr manager.Manager, o Options) (*loop, error) {
	if o.Default == (rules.Policy{}) {
		o.Default = rules.Off()
	}
	if o.Domain == "" {
		o.Domain = "cluster.local"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Prober == nil {
		var err error
		if o.Prober, err = newProber(mgr, o); err != nil {
			return nil, err
		}
	}
	register()
	return &loop{
		reader: mgr.GetCache(), writer: mgr.GetClient(), events: mgr.GetEventRecorder(Name), informer: mgr.GetCache(),
		o: o, prober: o.Prober, wake: make(chan struct{}, 1), entries: map[types.NamespacedName]*entry{},
	}, nil
}

// newProber is the prober that asks over HTTP.
func newProber(mgr manager.Manager, o Options) (*httpProber, error) {
	proxied, root, err := proxy.Through(mgr.GetHTTPClient(), mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	p := &httpProber{client: proxied, address: services(root), proxied: true, metrics: proxied, root: root, now: o.Now, longest: patience}
	if !o.Proxied {
		p.client, p.address = directly(o.Domain)
		p.proxied = false
	}
	typed, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a client for tokens: %w", err)
	}
	p.gauges = &proxy.Gauges{
		Client: proxied, Root: root, Pods: mgr.GetAPIReader(), Now: o.Now, Longest: patience, Token: exporter.NewMetricsTokens(typed, o.Now).Get,
	}
	return p, nil
}
