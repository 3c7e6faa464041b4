package serving

import (
	"bufio"
	"bytes"
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/core/serving"
)

// MetricsAt returns where a pod serves metrics, by the annotations that KServe's runtimes give it and Prometheus' usual ones.
func MetricsAt(notes map[string]string) (port, below string) {
	port = cmp.Or(notes[kserve.AnnotationMetricsPort], notes[kserve.AnnotationPrometheusPort])
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		port = strconv.Itoa(httpPort)
	}
	below = cmp.Or(notes[kserve.AnnotationMetricsPath], notes[kserve.AnnotationPrometheusPath])
	if !plainPath.MatchString(below) {
		below = "metrics"
	}
	return port, path.Clean("/" + below)
}

// plainPath is a path that needs no escapes. A path is a user's, and part of one at the API server's proxy.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9/._-]+$`)

// The metrics of requests that wait in a server, and that it works on: of vLLM (vllm/v1/metrics/loggers.py), which KServe's server for Hugging
// Face runs, and of Triton, which does not say how many it works on. There is a series for each model.
var (
	waitingMetrics = []string{"vllm:num_requests_waiting", "nv_inference_pending_request_count"}
	runningMetrics = []string{"vllm:num_requests_running"}
)

// QueueMetrics names the metrics for the number of requests that wait in a server.
func QueueMetrics() string { return strings.Join(waitingMetrics, ", ") }

// QueueOf reads how many requests wait in a server, and how many it works on, from its metrics in Prometheus' text format. ok is false if
// they have none for those that wait.
func QueueOf(text []byte) (f serving.Figure, ok bool) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		end := strings.IndexAny(line, "{ \t")
		if end < 0 {
			continue
		}
		name, rest := line[:end], line[end:]
		waits, runs := slices.Contains(waitingMetrics, name), slices.Contains(runningMetrics, name)
		if !waits && !runs {
			continue
		}
		if end := strings.LastIndexByte(rest, '}'); end >= 0 {
			rest = rest[end+1:]
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || !(v >= 0 && v < 1e9) {
			continue
		}
		if waits {
			f.Value, ok = f.Value+v, true
		} else {
			f.Running += v
		}
	}
	return f, ok
}
