package idle_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"berth.dev/berth/api"
	"berth.dev/berth/controller/idle"
	rules "berth.dev/berth/core/idle"
)

// prober asks through an API server that answers by path.
func prober(t *testing.T, answers map[string]http.HandlerFunc, pods ...client.Object) idle.Prober {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := answers[r.URL.Path]; h != nil {
			h(w, r)
			return
		}
		t.Errorf("GET %s was not expected", r.URL)
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	p, err := idle.NewProber(&rest.Config{Host: server.URL}, server.Client(), fake.NewClientBuilder().WithObjects(pods...).Build(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func text(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

const jupyter = "/api/v1/namespaces/" + ns + "/services/http:a:80/proxy/notebook/" + ns + "/a/api/"

func TestServer(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 30, 0, 123000000, time.UTC)
	idleKernel := `{"id":"1","name":"python3","last_activity":"2026-11-21T08:30:00.123Z","execution_state":"idle","connections":1}`
	busyKernel := `{"id":"2","name":"python3","last_activity":"2026-11-21T08:00:00Z","execution_state":"busy","connections":0}`
	status := `{"connections":1,"kernels":1,"last_activity":"2026-11-21T08:30:00.123Z","started":"2026-11-21T08:00:00Z"}`
	for _, c := range []struct {
		name                       string
		kernels, terminals, status http.HandlerFunc // nil is that it must not be asked
		want                       rules.Result
		said                       string
		count                      int
		terminal, api              time.Time
		token                      string
		programs                   bool
	}{
		{name: "a server that has a token of Berth's", token: "t", kernels: text(200, "[]"), terminals: text(200, "[]"), status: text(200, status), want: rules.OK, api: at},
		{
			name: "one idle kernel and a terminal", kernels: text(200, "["+idleKernel+"]"),
			terminals: text(200, `[{"name":"1","last_activity":"2026-11-21T08:30:00.123Z"}]`), status: text(200, status),
			want: rules.OK, count: 1, terminal: at, api: at, programs: true,
		},
		{name: "a busy kernel is all there is to know", kernels: text(200, "["+idleKernel+","+busyKernel+"]"), want: rules.OK, count: 2},
		{name: "no kernels", kernels: text(200, "[]"), terminals: text(200, "[]"), status: text(200, status), want: rules.OK, api: at},
		{name: "a server without terminals", kernels: text(200, "[]"), terminals: text(404, ""), status: text(200, status), want: rules.OK, api: at},
		{name: "an old server whose terminals tell no time", kernels: text(200, "[]"), terminals: text(200, `[{"name":"1"}]`), status: text(404, ""), want: rules.OK, programs: true},
		{name: "a server that is no Jupyter", kernels: text(404, "nothing here"), want: rules.Absent, said: "no kernels API"},
		{name: "a server that wants a token", kernels: text(403, `{"message":"Forbidden"}`), want: rules.Absent, said: "token"},
		{name: "a server that sends to a login", kernels: text(302, ""), want: rules.Absent, said: "login"},
		{name: "a page for people", kernels: text(200, "<!doctype html>"), want: rules.Absent, said: "no kernels API"},
		{name: "a server in trouble", kernels: text(500, "oh"), want: rules.Failed, said: "status 500"},
		{name: "terminals in trouble", kernels: text(200, "[]"), terminals: text(500, "oh"), want: rules.Failed, said: "status 500"},
		{
			name:    "the API server refuses in its place",
			kernels: text(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"services is forbidden","code":403}`),
			want:    rules.Failed, said: "services is forbidden",
		},
		{
			name:    "the API server reaches nobody",
			kernels: text(503, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no endpoints available","code":503}`),
			want:    rules.Failed, said: "no endpoints available",
		},
		{name: "an answer without an end", kernels: text(200, strings.Repeat(" ", 2<<20)), want: rules.Failed, said: "larger than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			answers := map[string]http.HandlerFunc{}
			for name, h := range map[string]http.HandlerFunc{"kernels": c.kernels, "terminals": c.terminals, "status": c.status} {
				if h != nil {
					answers[jupyter+name] = func(w http.ResponseWriter, r *http.Request) {
						if want := strings.TrimSuffix("no_track_activity=1&token="+c.token, "&token="); r.URL.RawQuery != want {
							t.Errorf("%s is asked in a way that counts as activity: %s", name, r.URL)
						}
						h(w, r)
					}
				}
			}
			got := prober(t, answers).Server(t.Context(), idle.Target{Namespace: ns, Name: "a", Token: c.token})
			if got.Result != c.want || !strings.Contains(got.Said, c.said) || len(got.Kernels) != c.count ||
				!got.Terminals.Equal(c.terminal) || got.Programs != c.programs || !got.API.Equal(c.api) {
				t.Errorf("Server = %+v; want %s, %q, %d kernels, terminals at %s, API at %s", got, c.want, c.said, c.count, c.terminal, c.api)
			}
		})
	}
}

// exporterOn is an exporter of a node.
func exporterOn(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "gpu-operator", Name: "dcgm-" + node, Labels: map[string]string{"app": "nvidia-dcgm-exporter"}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// holder is a pod that holds GPUs of node-1.
func holder(n int64, devices string) *corev1.Pod {
	p := podOf("a", corev1.ConditionTrue)
	quantity := *resource.NewQuantity(n, resource.DecimalSI)
	p.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{api.ResourceGPU: quantity}, Requests: corev1.ResourceList{api.ResourceGPU: quantity},
	}}}
	if devices != "" {
		p.Annotations = map[string]string{api.AnnotationDevices: devices}
	}
	return p
}

func TestGPUs(t *testing.T) {
	const metrics = "/api/v1/namespaces/gpu-operator/pods/http:dcgm-node-1:9400/proxy/metrics"
	two := `{"a":[{"uuid":"GPU-1","milliGPU":1000},{"uuid":"GPU-2","milliGPU":1000}]}`
	one := `{"a":[{"uuid":"GPU-1","milliGPU":1000}]}`
	labeled := `DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",namespace="` + ns + `",pod="a-0"} 40` + "\n" +
		`DCGM_FI_DEV_FB_USED{UUID="GPU-1",namespace="` + ns + `",pod="a-0"} 1024` + "\n" +
		`DCGM_FI_DEV_GPU_UTIL{UUID="GPU-9",namespace="other",pod="a-0"} 90` + "\n"
	for _, c := range []struct {
		name    string
		pod     *corev1.Pod
		answer  http.HandlerFunc
		without bool // no exporter on the node
		want    rules.Result
		said    string
		devices []rules.Device
	}{
		{name: "a pod that holds none", pod: podOf("a", corev1.ConditionTrue), want: rules.Absent},
		{
			name: "the exporter names the pod", pod: holder(1, one), answer: text(200, labeled), want: rules.OK,
			devices: []rules.Device{{UUID: "GPU-1", Utilization: 0.4, MemoryBytes: 1 << 30}},
		},
		{
			name: "the exporter names no pods: the UUIDs tell", pod: holder(2, two), want: rules.OK,
			answer: text(200, `DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} 0`+"\n"+`DCGM_FI_DEV_GPU_UTIL{UUID="GPU-2"} 70`+"\n"+`DCGM_FI_DEV_GPU_UTIL{UUID="GPU-3"} 99`+"\n"),
			devices: []rules.Device{
				{UUID: "GPU-1"}, {UUID: "GPU-2", Utilization: 0.7},
			},
		},
		{name: "one of two GPUs is not told of", pod: holder(2, two), answer: text(200, `DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} 0`+"\n"), want: rules.Failed, said: "1 of its 2"},
		{name: "only others are told of", pod: holder(1, one), answer: text(200, `DCGM_FI_DEV_GPU_UTIL{UUID="GPU-9"} 0`+"\n"), want: rules.Absent, said: "does not report"},
		{name: "no GPU is told of", pod: holder(1, one), answer: text(200, ""), want: rules.Failed, said: "reports no GPU"},
		{
			name: "only memory is told of, as of MIG devices by some", pod: holder(1, one), answer: text(200, `DCGM_FI_DEV_FB_USED{UUID="GPU-1"} 9`+"\n"),
			want: rules.Absent, said: "does not report",
		},
		{name: "the exporter is in trouble", pod: holder(1, one), answer: text(500, ""), want: rules.Failed, said: "status 500"},
		{name: "no exporter is on the node", pod: holder(1, one), without: true, want: rules.Absent, said: "no DCGM exporter runs on node node-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pods := []client.Object{exporterOn("node-2")}
			if !c.without {
				pods = append(pods, exporterOn("node-1"))
			}
			p := prober(t, map[string]http.HandlerFunc{metrics: c.answer}, pods...)
			got := p.GPUs(context.Background(), c.pod)
			if got.Result != c.want || !strings.Contains(got.Said, c.said) {
				t.Errorf("GPUs = %+v; want %s, %q", got, c.want, c.said)
			}
			if c.devices != nil && fmt.Sprint(got.Devices) != fmt.Sprint(c.devices) {
				t.Errorf("devices are %+v, want %+v", got.Devices, c.devices)
			}
		})
	}
}
