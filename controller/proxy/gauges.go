package proxy

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/exporter"
	"berth.dev/berth/kube/record"
)

const (
	scrapeSize = 16 << 20               // bytes of an exporter's metrics
	scrapeLife = 400 * time.Millisecond // for which a scrape serves all pods of its node
	// Which exporters there are is asked for again when it is that old, or when a
	// node seems to have none.
	exportersLife  = 5 * time.Minute
	exportersRetry = 30 * time.Second
)

// Gauges read the GPUs of nodes from their DCGM exporters, through the API
// server. Only the exporter of a node that is asked about is asked. Safe for concurrent use.
type Gauges struct {
	Client *http.Client
	Root   string        // URL of the API server's namespaces
	Pods   client.Reader // where exporters are looked for
	Now    func() time.Time
	// Longest is the most time that one look may take.
	Longest time.Duration
	// Token is for exporters that want one.
	Token func(context.Context) (string, error)

	mu     sync.Mutex
	listed time.Time
	byNode map[string]endpoint
	nodes  map[string]*gauge
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

// Read returns what the exporter of a node reports, and when. If no exporter runs there, served is false.
func (g *Gauges) Read(ctx context.Context, node string) (at time.Time, readings []exporter.Reading, served bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.Longest)
	defer cancel()
	from, err := g.exporter(ctx, node)
	if err != nil || from.path == "" {
		return g.Now(), nil, err != nil, err
	}
	at, readings, err = g.scrape(ctx, node, from)
	return at, readings, true, err
}

// Nodes returns the names of the nodes with an exporter, in order.
func (g *Gauges) Nodes(ctx context.Context) ([]string, error) {
	if _, err := g.exporter(ctx, ""); err != nil { // lists them, if that was not just done
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.byNode)), nil
}

// Text returns what the exporter of a node says, in Prometheus' text format.
func (g *Gauges) Text(ctx context.Context, node string) ([]byte, error) {
	from, err := g.exporter(ctx, node)
	if err != nil {
		return nil, err
	}
	if from.path == "" {
		return nil, fmt.Errorf("node %s has no DCGM exporter", node)
	}
	raw, err := g.metrics(ctx, node, from)
	if err != nil {
		g.moved()
	}
	return raw, err
}

// Record returns the pods that held GPUs of a node and are gone since a time, as its node agent has recorded them, and what time it is there. Only
// Berth's agents have a record; of other exporters there is none, and no error. An error that is fs.ErrPermission remains until the right is granted.
func (g *Gauges) Record(ctx context.Context, node string, since time.Time) (gone []record.Gone, now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.Longest)
	defer cancel()
	from, err := g.exporter(ctx, node)
	if err != nil || !from.secret {
		return nil, now, err
	}
	raw, status, err := g.fetch(ctx, from, record.Path+"?since="+url.QueryEscape(since.UTC().Format(time.RFC3339)))
	switch {
	case err != nil:
		return nil, now, err
	case status == http.StatusNotFound: // it keeps none
		return nil, now, nil
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return nil, now, fmt.Errorf("the node agent of node %s responds with status %d to a request for its record: deploy/agent.yaml has the ClusterRole %s: %w", node, status, api.RecordRole, fs.ErrPermission)
	case status != http.StatusOK:
		return nil, now, fmt.Errorf("the node agent of node %s responds with status %d to a request for its record", node, status)
	}
	gone, now = record.Read(raw)
	return gone, now, nil
}

// exporter is the exporter of a node, as the API has it.
func (g *Gauges) exporter(ctx context.Context, node string) (endpoint, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	age := g.Now().Sub(g.listed)
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
		if err := g.Pods.List(ctx, &list, o); err != nil {
			return endpoint{}, fmt.Errorf("look for DCGM exporters: %w", err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	g.byNode, g.listed = map[string]endpoint{}, g.Now()
	for _, p := range exporter.Exporters(all) {
		path := p.Namespace + "/pods/" + net.JoinSchemeNamePort(exporter.Scheme(p), p.Name, exporter.ExporterPort)
		g.byNode[p.Spec.NodeName] = endpoint{path, exporter.WantsMetricsToken(p)}
	}
	return g.byNode[node], nil
}

// scrape reads all GPUs of a node, at most once in scrapeLife.
func (g *Gauges) scrape(ctx context.Context, node string, from endpoint) (time.Time, []exporter.Reading, error) {
	g.mu.Lock()
	n := g.nodes[node]
	if n == nil {
		n = &gauge{}
		if g.nodes == nil {
			g.nodes = map[string]*gauge{}
		}
		g.nodes[node] = n
	}
	g.mu.Unlock()

	n.mu.Lock()
	defer n.mu.Unlock()
	if now := g.Now(); now.Sub(n.at) > scrapeLife || now.Before(n.at) {
		raw, err := g.metrics(ctx, node, from)
		n.at, n.readings, n.err = now, exporter.Readings(raw), err
		if err != nil {
			n.readings = nil
			g.moved()
		}
	}
	return n.at, n.readings, n.err
}

// metrics gets those of the exporter of a node.
func (g *Gauges) metrics(ctx context.Context, node string, from endpoint) ([]byte, error) {
	raw, status, err := g.fetch(ctx, from, "/metrics")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the DCGM exporter of node %s responds with status %d", node, status)
	}
	return raw, err
}

// fetch gets a path of an exporter.
func (g *Gauges) fetch(ctx context.Context, from endpoint, path string) (raw []byte, status int, err error) {
	header := http.Header{}
	if from.secret {
		token, err := g.Token(ctx)
		if err != nil {
			return nil, 0, err
		}
		header.Set(api.MetricsTokenHeader, token)
	}
	return Fetch(ctx, g.Client, g.Root+from.path+"/proxy"+path, scrapeSize, header)
}

// moved has the exporters listed again, as one does not answer: but not at once if
// they just were.
func (g *Gauges) moved() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.Now().Sub(g.listed) > exportersRetry {
		g.listed = time.Time{}
	}
}
