package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"berth.dev/berth/api"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// apiServer answers the two LISTs in protobuf, and /metrics of exporter pods.
func apiServer(t testing.TB, objects []runtime.Object, metrics map[string]string) *httptest.Server {
	t.Helper()
	nodes, pods := &v1.NodeList{}, &v1.PodList{}
	for _, o := range objects {
		switch o := o.(type) {
		case *v1.Node:
			nodes.Items = append(nodes.Items, *o)
		case *v1.Pod:
			pods.Items = append(pods.Items, *o)
		}
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), protobuf)
	if !ok {
		t.Fatal("there is no protobuf serializer")
	}
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, v1.SchemeGroupVersion)
	mux := http.NewServeMux()
	answer := func(path string, list runtime.Object) {
		raw, err := runtime.Encode(encoder, list)
		if err != nil {
			t.Fatal(err)
		}
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.Header.Get("Accept"), protobuf) || r.URL.Query().Get("limit") != "500" {
				t.Errorf("GET %s asks for %s, want protobuf in pages of 500", r.URL, r.Header.Get("Accept"))
			}
			w.Header().Set("Content-Type", protobuf)
			w.Write(raw)
		})
	}
	answer("/api/v1/nodes", nodes)
	answer("/api/v1/pods", pods)
	for pod, text := range metrics {
		mux.HandleFunc("/api/v1/namespaces/gpu-operator/pods/http:"+pod+":9400/proxy/metrics", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, text)
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// TestBusyIsReadFromAgentsThatAsk has an agent that gives its metrics for a token alone,
// and a pod of a tenant that says that it is one: it gets none.
func TestBusyIsReadFromAgentsThatAsk(t *testing.T) {
	whole := node("gpu-node-1", "Tesla T4", 1, "", api.ResourceGPU, 1)
	agent, forged := exporter("berth-agent-x"), exporter("forged")
	for _, p := range []*v1.Pod{agent, forged} {
		p.Labels["app"], p.Annotations[api.AnnotationScrapeScheme], p.Spec.ServiceAccountName = "berth-agent", "https", api.AgentAccount
	}
	agent.Namespace = api.MetricsNamespace
	server := apiServer(t, []runtime.Object{whole, agent, forged, pod("ns", "a", "gpu-node-1", api.ResourceGPU, "GPU-gpu-node-1-0")}, nil)
	mux := server.Config.Handler.(*http.ServeMux)
	mux.HandleFunc("POST /api/v1/namespaces/kube-system/serviceaccounts/berth-metrics-reader/token", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), api.MetricsAudience) {
			t.Errorf("a token is asked for with %q, %v", body, err)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","status":{"token":"good"}}`)
	})
	mux.HandleFunc("/api/v1/namespaces/kube-system/pods/https:berth-agent-x:9400/proxy/metrics", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(api.MetricsTokenHeader) != "good" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-gpu-node-1-0",modelName="Tesla T4"} 90`+"\n")
	})
	asked := make(chan string, 1)
	mux.HandleFunc("/api/v1/namespaces/gpu-operator/pods/https:forged:9400/proxy/metrics", func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get(api.MetricsTokenHeader)
	})
	s := newStage(t)
	write(t, os.Getenv("KUBECONFIG"), strings.Replace(kubeconfig, "https://cluster.test:6443", server.URL, 1))
	s.connect = nil
	if out := s.ok("nodes", "--no-headers"); !strings.Contains(out, " 90% ") {
		t.Errorf("berth nodes:\n%s", out)
	}
	if got := <-asked; got != "" {
		t.Errorf("a tenant's pod was sent the token %q", got)
	}
}

func exporter(name string) *v1.Pod {
	p := pod("gpu-operator", name, "n", "cpu")
	p.Labels["app"] = "nvidia-dcgm-exporter"
	return p
}

// rows: GS-48

func TestBusyIsReadFromExporters(t *testing.T) {
	whole := node("gpu-node-1", "Tesla T4", 2, "", api.ResourceGPU, 2)
	cut := node("gpu-node-2", "NVIDIA A100-SXM4-40GB", 1, "", "nvidia.com/mig-3g.20gb", 2)
	objects := []runtime.Object{
		whole, cut, exporter("e1"), exporter("e2"), exporter("silent"),
		pod("ns", "a", "gpu-node-1", api.ResourceGPU, "GPU-gpu-node-1-0", "GPU-gpu-node-1-1"),
		pod("ns", "b", "gpu-node-2", "nvidia.com/mig-3g.20gb"),
	}
	gpus := inventoryOf(cut)
	gpus[0].ComputeSlices = 7
	publish(cut, gpus)
	objects[6].(*v1.Pod).Annotations[api.AnnotationDevices] = `{"main":[{"uuid":"GPU-gpu-node-2-0","milliGPU":428}]}`
	s := newStage(t)
	server := apiServer(t, objects, map[string]string{
		"e1": "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n" +
			`DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-gpu-node-1-0",modelName="Tesla T4"} 90` + "\n" +
			`DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-gpu-node-1-1",modelName="a, \"b\""} 84` + "\n",
		// Weighted by slices: (3 x 0.5 + 1 x 0.1) / 4.
		"e2": `DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-gpu-node-2-0",GPU_I_PROFILE="3g.20gb",GPU_I_ID="1"} 0.5` + "\n" +
			`DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-gpu-node-2-0",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7"} 0.1 1700000000` + "\n" +
			"DCGM_FI_DEV_GPU_UTIL{broken\nnonsense } 7\n",
	})
	write(t, os.Getenv("KUBECONFIG"), strings.Replace(kubeconfig, "https://cluster.test:6443", server.URL, 1))
	s.connect = nil
	want := "gpu-node-1   2   2 (100%)     87%\n" +
		"gpu-node-2   1   0.43 (43%)   40%\n"
	if got := s.ok("nodes", "--view", "allocation", "--no-headers"); got != want {
		t.Errorf("nodes prints\n%swant\n%s", got, want)
	}
}

// BenchmarkNodes answers `berth nodes` for 1,000 nodes of 8 GPUs, all held.
func BenchmarkNodes(b *testing.B) {
	var objects []runtime.Object
	for i := range 1000 {
		name := fmt.Sprintf("n%d", i)
		objects = append(objects, node(name, "NVIDIA A100-SXM4-40GB", 8, "21.96", api.ResourceGPU, 8))
		for j := range 8 {
			objects = append(objects, pod("ns", fmt.Sprintf("%s-%d", name, j), name, api.ResourceGPU, fmt.Sprintf("GPU-%s-%d", name, j)))
		}
	}
	server := apiServer(b, objects, nil)
	s := newStage(b)
	write(b, os.Getenv("KUBECONFIG"), strings.Replace(kubeconfig, "https://cluster.test:6443", server.URL, 1))
	s.connect = nil
	for b.Loop() {
		s.ok("nodes")
	}
}
