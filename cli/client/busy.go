package client

import (
	"cmp"
	"context"
	"io"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/net"

	"berth.dev/berth/api"
	"berth.dev/berth/internal/input"
	"berth.dev/berth/kube/exporter"
)

const (
	busyPatience = 2 * time.Second // for all exporters together: see Options
	busyNodes    = 64              // with more exporters none is asked
	busyAtOnce   = 8
)

// mostMetrics is the most bytes of one exporter that are read: any pod with the labels
// of an exporter is asked.
const mostMetrics = 16 << 20

// Utilization asks the DCGM exporters of the cluster, through the API server,
// how busy each GPU is: ratios by GPU UUID. It is a courtesy: an exporter that
// does not answer in time, or may not be asked, leaves its GPUs out.
func (c *Cluster) Utilization(ctx context.Context, pods []*v1.Pod) map[string]float64 {
	out := map[string]float64{}
	if len(pods) == 0 || len(pods) > busyNodes {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.busyPatience, busyPatience))
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, busyAtOnce)
	tokens := exporter.NewMetricsTokens(c, time.Now)
	for _, p := range pods {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			body, err := c.scrape(ctx, p, tokens)
			if err != nil {
				return
			}
			raw, err := input.Read("metrics of pod "+p.Name, body, mostMetrics)
			if body.Close(); err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(out, exporter.Utilization(raw))
		})
	}
	wg.Wait()
	return out
}

// scrape asks one exporter for its metrics.
func (c *Cluster) scrape(ctx context.Context, p *v1.Pod, tokens *exporter.MetricsTokens) (io.ReadCloser, error) {
	r := c.CoreV1().RESTClient().Get().Namespace(p.Namespace).Resource("pods").SubResource("proxy").
		Name(net.JoinSchemeNamePort(exporter.Scheme(p), p.Name, exporter.ExporterPort)).Suffix("/metrics")
	if exporter.WantsMetricsToken(p) {
		token, err := tokens.Get(ctx)
		if err != nil {
			return nil, err
		}
		r = r.SetHeader(api.MetricsTokenHeader, token)
	}
	return r.Stream(ctx)
}
