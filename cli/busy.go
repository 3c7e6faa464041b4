package cli

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/kube"
)

const (
	busyPatience = 2 * time.Second // for all exporters together: see Options
	busyNodes    = 64              // with more exporters none is asked
	busyAtOnce   = 8
)

// utilization asks the DCGM exporters of the cluster, through the API server,
// how busy each GPU is: ratios by GPU UUID. It is a courtesy: an exporter that
// does not answer in time, or may not be asked, leaves its GPUs out.
func (c *cluster) utilization(ctx context.Context, pods []*v1.Pod) map[string]float64 {
	out := map[string]float64{}
	if len(pods) == 0 || len(pods) > busyNodes {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.busyPatience, busyPatience))
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, busyAtOnce)
	for _, p := range pods {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			raw, err := c.CoreV1().Pods(p.Namespace).ProxyGet("http", p.Name, kube.ExporterPort, "/metrics", nil).DoRaw(ctx)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(out, kube.Utilization(raw))
		})
	}
	wg.Wait()
	return out
}
