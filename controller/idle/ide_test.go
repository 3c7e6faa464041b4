package idle_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/controller/idle"
	rules "berth.dev/berth/core/idle"
)

func TestOtherIDEsReportTheirUse(t *testing.T) {
	beat := time.UnixMilli(1763712600000)
	proxy := "/api/v1/namespaces/" + ns + "/services/http:a:80/proxy"
	for _, c := range []struct {
		name    string
		target  idle.Target
		path    string
		answer  http.HandlerFunc
		want    rules.Result
		said    string
		used    time.Time // zero is never
		open    int
		seconds int64 // since it was used, where it reports that
	}{
		{
			name: "VS Code with a page open", target: idle.Target{Type: "group-one", Rewrite: "/"}, path: "/healthz",
			answer: text(200, `{"status":"alive","lastHeartbeat":1763712600000}`), want: rules.OK, used: beat, open: 1,
		},
		{
			name: "VS Code at its own path, with no page open", target: idle.Target{Type: "group-one"}, path: "/notebook/" + ns + "/a/healthz",
			answer: text(200, `{"status":"expired","lastHeartbeat":1763712600000}`), want: rules.OK, used: beat,
		},
		{
			name: "VS Code that was never opened", target: idle.Target{Type: "group-one", Rewrite: "/"}, path: "/healthz",
			answer: text(200, `{"status":"expired","lastHeartbeat":0}`), want: rules.OK,
		},
		{
			name: "another server in its place", target: idle.Target{Type: "group-one", Rewrite: "/"}, path: "/healthz",
			answer: text(200, `OK`), want: rules.Absent, said: "does not report a heartbeat",
		},
		{
			name: "VS Code in trouble", target: idle.Target{Type: "group-one", Rewrite: "/"}, path: "/healthz",
			answer: text(502, `bad gateway`), want: rules.Failed, said: "status 502",
		},
		{
			name: "RStudio with its health check", target: idle.Target{Type: "group-two", Rewrite: "/"}, path: "/health-check",
			answer: text(200, "active-sessions: 1\nidle-seconds: 90\ncpu-percent: 0.0\n"), want: rules.OK, seconds: 90,
		},
		{
			name: "RStudio without it", target: idle.Target{Type: "group-two", Rewrite: "/"}, path: "/health-check",
			answer: text(404, "not found"), want: rules.Absent, said: "server-health-check-enabled",
		},
		{
			name: "RStudio's page for people", target: idle.Target{Type: "group-two", Rewrite: "/"}, path: "/health-check",
			answer: text(200, "<!doctype html>\nidle: 3"), want: rules.Absent, said: "server-health-check-enabled",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.target.Namespace, c.target.Name = ns, "a"
			before := time.Now()
			got := prober(t, map[string]http.HandlerFunc{proxy + c.path: c.answer}).Server(t.Context(), c.target)
			if c.seconds > 0 {
				if ago := before.Sub(got.API); ago > time.Duration(c.seconds)*time.Second || ago < time.Duration(c.seconds-60)*time.Second {
					t.Errorf("used %s ago, want %d s", ago, c.seconds)
				}
				got.API = time.Time{}
			}
			if got.Result != c.want || !strings.Contains(got.Said, c.said) || !got.API.Equal(c.used) || got.Connections != c.open {
				t.Errorf("Server = %+v; want %s, %q, used at %s, %d pages", got, c.want, c.said, c.used, c.open)
			}
			if got.Programs != (c.want == rules.OK) {
				t.Errorf("Programs is %v of a server that is %s", got.Programs, got.Result)
			}
		})
	}
}

func TestCPU(t *testing.T) {
	path := "/apis/metrics.k8s.io/v1beta1/namespaces/" + ns + "/pods/a-0"
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   rules.Result
		cores  float64
		said   string
	}{
		{"two containers", text(200, `{"containers":[{"name":"a","usage":{"cpu":"1250m","memory":"1Gi"}},{"name":"b","usage":{"cpu":"250000000n"}}]}`), rules.OK, 1.5, ""},
		{"no metrics API", text(404, "404 page not found"), rules.Absent, 0, "no reading"},
		{
			"no reading of the pod yet",
			text(404, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods \"a-0\" not found","code":404}`), rules.Absent, 0, "no reading",
		},
		{"the right is missing", text(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"forbidden","code":403}`), rules.Absent, 0, "no reading"},
		{"a metrics server that is down", text(503, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"unavailable","code":503}`), rules.Failed, 0, "unavailable"},
		{"no JSON", text(200, "hello"), rules.Failed, 0, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := prober(t, map[string]http.HandlerFunc{path: c.answer}).CPU(t.Context(), ns, "a-0")
			if got.Result != c.want || got.Cores != c.cores || !strings.Contains(got.Said, c.said) {
				t.Errorf("CPU = %+v, want %s, %g cores, %q", got, c.want, c.cores, c.said)
			}
		})
	}
}
