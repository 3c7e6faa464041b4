package idle

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	rules "berth.dev/berth/core/idle"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/exporter"
	"berth.dev/berth/kube/request"
)

const (
	scrapeSize = 16 << 20               // bytes of an exporter's metrics
	scrapeLife = 400 * time.Millisecond // for which a scrape serves all notebooks of its node
	// Which exporters there are is asked for again when it is that old, or when a
	// node seems to have none.
	exportersLife  = 5 * time.Minute
	exportersRetry = 30 * time.Second
)

// gauges read the GPUs of nodes from their DCGM exporters, through the API
// server. Only the exporter of a node that is asked about is asked.
type gauges struct {
	client *http.Client
	root   string // URL of the API server's namespaces
	pods   client.Reader
	now    func() time.Time
	// longest is the most time that one look may take.
	longest time.Duration

	mu     sync.Mutex
	listed time.Time
	byNode map[string]endpoint
	nodes  map[string]*gauge

	// token is for exporters that want one.
	token func(context.Context) (string, error)
}

// endpoint is where the exporter of a node is.
type endpoint struct {
	path   string // below namespaces/; "" is none
	secret bool   // it wants a token
}

// gauge is the last scrape of a node.
type gauge struct {
	mu       sync.Mutex
	at       time.Time
	readings []exporter.Reading
	err      error
}

// GPUs implements Prober.
func (p *httpProber) GPUs(ctx context.Context, pod *corev1.Pod) rules.GPUs {
	return p.gauges.read(ctx, pod)
}

func (g *gauges) read(ctx context.Context, pod *corev1.Pod) rules.GPUs {
	out := rules.GPUs{At: g.now(), Result: rules.Absent}
	if request.Of(pod) == nil {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, g.longest)
	defer cancel()
	from, err := g.exporter(ctx, pod.Spec.NodeName)
	if err == nil && from.path == "" {
		out.Said = "no DCGM exporter runs on node " + pod.Spec.NodeName
		return out
	}
	var at time.Time
	var readings []exporter.Reading
	if err == nil {
		at, readings, err = g.scrape(ctx, pod.Spec.NodeName, from)
	}
	if err != nil {
		out.Result, out.Said = rules.Failed, "its GPUs cannot be read: "+short(err, g.longest)
		return out
	}
	return gpuState(at, pod, readings)
}

// gpuState picks what a pod holds: by the exporter's own word, else by UUID. It is
// Failed where the exporter tells of some of the pod's devices only, or of no GPU at
// all, as where the driver hangs; and Absent where it tells of others alone, or not
// how busy they are, as of MIG devices by some exporters.
func gpuState(at time.Time, pod *corev1.Pod, readings []exporter.Reading) rules.GPUs {
	out := rules.GPUs{At: at, Result: rules.Absent}
	held := devices.HeldDevices(pod)
	add := func(mine func(exporter.Reading) bool) {
		for _, r := range readings {
			if r.UtilizationKnown && mine(r) {
				out.Devices = append(out.Devices, rules.Device{UUID: r.UUID, Utilization: r.Utilization, MemoryBytes: r.MemoryBytes})
			}
		}
	}
	add(func(r exporter.Reading) bool { return r.Namespace == pod.Namespace && r.Pod == pod.Name })
	if len(out.Devices) == 0 {
		add(func(r exporter.Reading) bool { return r.Profile == "" && slices.Contains(held, r.UUID) })
	}
	switch n := len(out.Devices); {
	case len(readings) == 0:
		out.Result, out.Said = rules.Failed, "the DCGM exporter of node "+pod.Spec.NodeName+" responds but reports no GPU"
	case n == 0:
		out.Said = "the DCGM exporter of node " + pod.Spec.NodeName + " does not report its GPUs"
	case n < len(held):
		out.Result, out.Said = rules.Failed, fmt.Sprintf("the DCGM exporter of node %s reports %d of its %d GPUs", pod.Spec.NodeName, n, len(held))
	default:
		out.Result = rules.OK
	}
	return out
}

// exporter is the exporter of a node, as the API has it.
func (g *gauges) exporter(ctx context.Context, node string) (endpoint, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	age := g.now().Sub(g.listed)
	have := g.byNode[node]
	if g.byNode != nil && (age < exportersRetry || have.path != "" && age < exportersLife) {
		return have, nil
	}
	var all []*corev1.Pod
	for _, text := range exporter.ExporterSelectors {
		selector, err := labels.Parse(text)
		if err != nil {
			return endpoint{}, fmt.Errorf("selector %s: %w", text, err)
		}
		var list corev1.PodList
		o := &client.ListOptions{LabelSelector: selector, Raw: &metav1.ListOptions{ResourceVersion: "0"}}
		if err := g.pods.List(ctx, &list, o); err != nil {
			return endpoint{}, fmt.Errorf("look for DCGM exporters: %w", err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	g.byNode, g.listed = map[string]endpoint{}, g.now()
	for _, p := range exporter.Exporters(all) {
		path := p.Namespace + "/pods/" + net.JoinSchemeNamePort(exporter.Scheme(p), p.Name, exporter.ExporterPort)
		g.byNode[p.Spec.NodeName] = endpoint{path, exporter.WantsMetricsToken(p)}
	}
	return g.byNode[node], nil
}

// scrape reads all GPUs of a node, at most once in scrapeLife.
func (g *gauges) scrape(ctx context.Context, node string, from endpoint) (time.Time, []exporter.Reading, error) {
	g.mu.Lock()
	n := g.nodes[node]
	if n == nil {
		n = &gauge{}
		g.nodes[node] = n
	}
	g.mu.Unlock()

	n.mu.Lock()
	defer n.mu.Unlock()
	if now := g.now(); now.Sub(n.at) > scrapeLife || now.Before(n.at) {
		raw, status, err := g.fetch(ctx, from)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("the DCGM exporter of node %s responds with status %d", node, status)
		}
		n.at, n.readings, n.err = now, exporter.Readings(raw), err
		if err != nil {
			n.readings = nil
			g.moved()
		}
	}
	return n.at, n.readings, n.err
}

// fetch gets the metrics of an exporter.
func (g *gauges) fetch(ctx context.Context, from endpoint) (raw []byte, status int, err error) {
	header := http.Header{}
	if from.secret {
		token, err := g.token(ctx)
		if err != nil {
			return nil, 0, err
		}
		header.Set(api.MetricsTokenHeader, token)
	}
	return fetch(ctx, g.client, g.root+from.path+"/proxy/metrics", scrapeSize, header)
}

// moved has the exporters listed again, as one does not answer: but not at once if
// they just were.
func (g *gauges) moved() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now().Sub(g.listed) > exportersRetry {
		g.listed = time.Time{}
	}
}
