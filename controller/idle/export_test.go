package idle

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/kube/exporter"
)

// Loop is the loop without a manager.
type Loop struct{ *loop }

// NewLoop makes one of which a test drives the passes.
func NewLoop(c client.Client, r events.EventRecorder, o Options) Loop {
	return Loop{&loop{
		hubs: c, reader: c, writer: c, events: r, o: o, prober: o.Prober, wake: make(chan struct{}, 1), entries: map[types.NamespacedName]*entry{},
	}}
}

// Pass is one pass: see loop.pass.
func (l Loop) Pass(ctx context.Context) time.Duration { return l.pass(ctx) }

// Settle is how long the loop waits for changes to gather.
const Settle = settle

// NewProber makes the prober that asks through an API server, with a patience that
// no test comes to the end of.
func NewProber(cfg *rest.Config, c *http.Client, pods client.Reader, now func() time.Time) (Prober, error) {
	typed, err := kubernetes.NewForConfigAndClient(cfg, c)
	if err != nil {
		return nil, err
	}
	c, root, err := proxy.Through(c, cfg)
	if err != nil {
		return nil, err
	}
	return &httpProber{client: c, address: services(root), proxied: true, metrics: c, root: root, now: now, longest: 2 * time.Minute, gauges: &proxy.Gauges{
		Client: c, Root: root, Pods: pods, Now: now, Longest: 2 * time.Minute, Token: exporter.NewMetricsTokens(typed, now).Get,
	}}, nil
}

// NewJobsLoop makes one for training jobs, of which a test drives the passes.
func NewJobsLoop(c client.Client, r events.EventRecorder, o Options, jobs Jobs) Loop {
	l := NewLoop(c, r, o)
	l.jobs = &jobs
	return l
}
