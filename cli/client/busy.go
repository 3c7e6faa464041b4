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
	busyNodes    = 64              // more exporters are not asked
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
	if len(pods) <= busyNodes {
		c.ScrapeAll(ctx, pods, func(raw []byte) { maps.Copy(out, exporter.Utilization(raw)) })
	}
	return out
}

// Readings is Utilization, and what each device does for each of its holders, in no order. In clusters with more exporters than
// can be asked at once it reads what `berth meter` has read of them lately.
func (c *Cluster) Readings(ctx context.Context, pods []*v1.Pod) (busy map[string]float64, list []exporter.Reading) {
	busy = map[string]float64{}
	take := func(raw []byte) {
		maps.Copy(busy, exporter.Utilization(raw))
		list = append(list, exporter.Readings(raw)...)
	}
	if len(pods) <= busyNodes {
		c.ScrapeAll(ctx, pods, take)
		return busy, list
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.busyPatience, busyPatience))
	defer cancel()
	if raw, err := c.kept(ctx, "GET", api.PrometheusPath+"federate", map[string]string{"match[]": exporter.Matcher}); err == nil {
		take(raw)
	}
	return busy, list
}

// ScrapeAll asks exporters, and has take read what each says, one after the other.
func (c *Cluster) ScrapeAll(ctx context.Context, pods []*v1.Pod, take func(raw []byte)) {
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
			take(raw)
		})
	}
	wg.Wait()
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
