package kubelet_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/fleet/kubelet"
	"berth.dev/berth/fleet/smi"
)

const (
	node = "gpu-node-1"
	uuid = "GPU-6f1c0c5a-0000-5000-8000-000000000003"
)

// epoch is now in most tests.
var epoch = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// fakeRuntime is one node with one GPU and the containers it is given.
type fakeRuntime struct {
	mu     sync.Mutex
	cs     []kubelet.Container
	exited string // the last container whose shell exited
}

func (f *fakeRuntime) Exit(node, uid, container string, restarts, code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.exited = fmt.Sprintf("%s/%s/%s after %d: %d", node, uid, container, restarts, code)
}

func (f *fakeRuntime) set(cs ...kubelet.Container) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cs = cs
}

func (f *fakeRuntime) Containers(node, namespace, pod string) []kubelet.Container {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []kubelet.Container
	for _, c := range f.cs {
		if (node == "" || c.Node == node) && (namespace == "" || c.Namespace == namespace) && (pod == "" || c.Pod == pod) {
			out = append(out, c)
		}
	}
	return out
}

func (f *fakeRuntime) card() gpu.GPU {
	return gpu.GPU{UUID: uuid, Product: "NVIDIA A100-SXM4-40GB", MemoryBytes: 40 << 30, Healthy: true}
}

func (f *fakeRuntime) View(node string, uuids []string) smi.View {
	v := smi.View{Node: node, Driver: "570.124.06", CUDA: "12.8", Now: epoch, Devices: []smi.Device{{GPU: f.card()}}}
	v.Devices[0].GPU.MIGEnabled = len(uuids) == 1 && uuids[0] == "MIG-a"
	if v.Devices[0].GPU.MIGEnabled {
		v.Devices[0].GPU.MIG = []gpu.MIGDevice{{UUID: "MIG-a", Profile: "1g.5gb", GI: 7}}
	}
	return v
}

func (f *fakeRuntime) Metrics(string) []exporter.Device {
	return []exporter.Device{{GPU: f.card(), Reading: gpu.Reading{UtilizationRatio: 0.87}}}
}

func (f *fakeRuntime) Nodes() []string { return []string{node, "gpu-node-2"} }

func (f *fakeRuntime) Usage(string) (int64, int64) { return 1500, 4 << 30 }

// pod returns a running container called main of a pod in namespace default.
func pod(name string) kubelet.Container {
	return kubelet.Container{
		Namespace: "default", Pod: name, UID: "uid-" + name, Labels: map[string]string{"app": name},
		Name: "main", Node: node, Image: "nvidia/cuda:12.4.1-base", State: kubelet.StateRunning,
		Env: []string{"NVIDIA_VISIBLE_DEVICES=" + uuid}, StartedAt: epoch.Add(-time.Minute),
		Devices:  []sharing.Device{{ID: uuid, UUID: uuid, GPU: 3, Resource: "nvidia.com/gpu"}},
		CPUMilli: 250, MemoryBytes: 512 << 20,
	}
}

// serve starts the kubelet API of rt on loopback, as the node's address.
func serve(t *testing.T, rt kubelet.Runtime, now func() time.Time) *rest.Config {
	t.Helper()
	h := kubelet.New(rt, now).Handler()
	return serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		r.Host = node + ".sim.internal:10250"
		h.ServeHTTP(w, r)
	})
}

func fixed() time.Time { return epoch }

// serveFunc starts a server on loopback.
func serveFunc(t *testing.T, f http.HandlerFunc) *rest.Config {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return &rest.Config{Host: srv.URL}
}
