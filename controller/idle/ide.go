package idle

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/controller/proxy"
	rules "berth.dev/berth/core/idle"
	"berth.dev/berth/kube/exporter"
)

// codeServer asks code-server, which serves VS Code, for its heartbeat: GET /healthz
// reports in milliseconds when a page was last connected, and counts for none itself
// (src/node/heart.ts and src/node/routes/health.ts of coder/code-server).
func (p *httpProber) codeServer(ctx context.Context, base string) rules.Server {
	out := rules.Server{At: p.now(), Result: rules.OK, Programs: true}
	raw, status, err := proxy.Fetch(ctx, p.client, base+"/healthz", answerSize, nil)
	var answer struct {
		Status string `json:"status"`
		Beat   *int64 `json:"lastHeartbeat"`
	}
	if why := p.unasked(status, err); why != "" {
		return rules.Server{At: out.At, Result: rules.Failed, Said: why}
	}
	if status != http.StatusOK || json.Unmarshal(raw, &answer) != nil || answer.Beat == nil {
		return rules.Server{At: out.At, Result: rules.Absent, Said: "its server does not report a heartbeat as code-server does"}
	}
	if *answer.Beat > 0 {
		out.API = time.UnixMilli(*answer.Beat)
	}
	if answer.Status == "alive" {
		out.Connections = 1
	}
	return out
}

// rstudio asks an RStudio server for its health check, which Posit Workbench serves if
// its server-health-check-enabled is 1: lines of "name: value", of which idle-seconds
// is how long no session has been used.
func (p *httpProber) rstudio(ctx context.Context, base string) rules.Server {
	out := rules.Server{At: p.now(), Result: rules.OK, Programs: true}
	raw, status, err := proxy.Fetch(ctx, p.client, base+"/health-check", answerSize, nil)
	if why := p.unasked(status, err); why != "" {
		return rules.Server{At: out.At, Result: rules.Failed, Said: why}
	}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
		if status == http.StatusOK && strings.TrimSpace(name) == "idle-seconds" && err == nil {
			out.API = out.At.Add(-time.Duration(seconds) * time.Second)
			return out
		}
	}
	return rules.Server{At: out.At, Result: rules.Absent, Said: "RStudio reports its use only with server-health-check-enabled=1 of Posit Workbench"}
}

// unasked returns why a server could not be asked that should answer, or "".
func (p *httpProber) unasked(status int, err error) string {
	switch {
	case err != nil:
		return "its server does not respond: " + proxy.Short(err, p.longest)
	case status >= http.StatusInternalServerError:
		return "its server responds with status " + strconv.Itoa(status)
	}
	return ""
}

// CPU implements Prober: it reads the metrics API (metrics.k8s.io/v1beta1).
func (p *httpProber) CPU(ctx context.Context, namespace, name string) rules.CPU {
	ctx, cancel := context.WithTimeout(ctx, p.longest)
	defer cancel()
	address := strings.TrimSuffix(p.root, "/api/v1/namespaces/") + exporter.PodMetricsPath(namespace, name)
	raw, status, err := proxy.Fetch(ctx, p.metrics, address, answerSize, nil)
	switch {
	case status == http.StatusNotFound || status == http.StatusForbidden:
		return rules.CPU{Result: rules.Absent, Said: "the metrics API has no reading of its CPU"}
	case err == nil && status != http.StatusOK:
		return rules.CPU{Result: rules.Failed, Said: "the metrics API responds with status " + strconv.Itoa(status)}
	case err != nil:
		return rules.CPU{Result: rules.Failed, Said: "the metrics API does not respond: " + proxy.Short(err, p.longest)}
	}
	used, err := exporter.ContainerCPU(raw)
	if err != nil {
		return rules.CPU{Result: rules.Failed, Said: "what the metrics API responds cannot be read"}
	}
	var sum resource.Quantity
	for _, cpu := range used {
		sum.Add(cpu)
	}
	return rules.CPU{Result: rules.OK, Cores: sum.AsApproximateFloat64()}
}
