package cli

import (
	"bufio"
	"bytes"
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	busyPatience = time.Second // for all exporters together
	busyNodes    = 64          // with more exporters none is asked
	busyAtOnce   = 8

	exporterPort   = "9400"
	metricUtil     = "DCGM_FI_DEV_GPU_UTIL"          // percent; not given for GPUs with MIG on
	metricGraphics = "DCGM_FI_PROF_GR_ENGINE_ACTIVE" // ratio, of a MIG device where there are some
)

// exporters picks the running pods that publish GPU readings, by the labels of
// NVIDIA's operator or of the exporter's own chart.
func exporters(pods []*v1.Pod) []*v1.Pod {
	var out []*v1.Pod
	for _, p := range pods {
		if p.Status.Phase == v1.PodRunning &&
			(p.Labels["app"] == "nvidia-dcgm-exporter" || p.Labels["app.kubernetes.io/name"] == "dcgm-exporter") {
			out = append(out, p)
		}
	}
	return out
}

// utilization asks the DCGM exporters of the cluster, through the API server,
// how busy each GPU is: ratios by GPU UUID. It is a courtesy: an exporter that
// does not answer in time, or may not be asked, leaves its GPUs out.
func (c *cluster) utilization(ctx context.Context, pods []*v1.Pod) map[string]float64 {
	out := map[string]float64{}
	if len(pods) == 0 || len(pods) > busyNodes {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, busyPatience)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, busyAtOnce)
	for _, p := range pods {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			raw, err := c.CoreV1().Pods(p.Namespace).ProxyGet("http", p.Name, exporterPort, "/metrics", nil).DoRaw(ctx)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(out, parseUtilization(raw))
		})
	}
	wg.Wait()
	return out
}

// parseUtilization reads DCGM metrics in Prometheus' text format: ratios by GPU
// UUID. For a GPU cut by MIG it is the mean of its devices, weighted by their
// compute slices. Lines it does not understand are passed over.
func parseUtilization(text []byte) map[string]float64 {
	whole := map[string]float64{}
	sum, weight := map[string]float64{}, map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		name, rest, ok := strings.Cut(line, "{")
		if !ok || name != metricUtil && name != metricGraphics {
			continue
		}
		end := strings.LastIndexByte(rest, '}')
		if end < 0 {
			continue
		}
		fields := strings.Fields(rest[end+1:])
		if len(fields) == 0 {
			continue
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		uuid := labelValue(rest[:end], "UUID")
		if err != nil || uuid == "" || value < 0 {
			continue
		}
		profile := labelValue(rest[:end], "GPU_I_PROFILE")
		switch {
		case name == metricUtil && profile == "":
			whole[uuid] = value / 100
		case name == metricGraphics && profile != "":
			slices, _, _ := strings.Cut(profile, "g")
			n, err := strconv.ParseFloat(slices[strings.LastIndexByte(slices, '.')+1:], 64)
			if err != nil {
				n = 1
			}
			sum[uuid] += n * value
			weight[uuid] += n
		}
	}
	for uuid, w := range weight {
		if _, known := whole[uuid]; !known && w > 0 {
			whole[uuid] = sum[uuid] / w
		}
	}
	return whole
}

// labelValue finds a label in the inside of a metric's braces.
func labelValue(labels, name string) string {
	for rest := labels; rest != ""; {
		key, after, ok := strings.Cut(rest, `="`)
		if !ok {
			return ""
		}
		value, next, ok := strings.Cut(after, `"`)
		if !ok {
			return ""
		}
		if strings.Trim(key, ", ") == name {
			return value
		}
		rest = next
	}
	return ""
}
