package agent

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/agent/allocation"
	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
)

// somePods is a node with pods, or nobody who tells of them.
type somePods struct {
	noPods
	list []*v1.Pod
	err  error
}

func (p *somePods) Pods(context.Context, bool) ([]*v1.Pod, error) { return p.list, p.err }

func TestACommitmentToAPodThatHasNotStartedKeepsAGPUFromBeingCut(t *testing.T) {
	pods := &somePods{list: []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: "train-0", UID: "uid-train-0",
		Annotations: map[string]string{api.AnnotationDevices: `{"c":[{"uuid":"GPU-b","milliGPU":1000,"memoryBytes":151397597184}]}`},
	}}}}
	node, err := allocation.New(t.Context(), allocation.Options{CDIDir: t.TempDir(), DeviceDir: t.TempDir(), Pods: pods})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if err := node.SetGPUs(nvml.Snapshot{GPUs: []nvml.GPU{gpuNamed(0, "GPU-a"), gpuNamed(1, "GPU-b")}}, nil, config.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	a := &agent{node: node}
	held, err := a.inUse(t.Context())
	if got := strings.Join(held["GPU-b"], ", "); err != nil || len(held) != 1 || got != "pod team-a/train-0, which has not started" {
		t.Errorf("held are %v, %v", held, err)
	}
	pods.err = errors.New("the API server is away")
	if _, err := a.inUse(t.Context()); !errors.Is(err, pods.err) {
		t.Errorf("without the API server: %v", err)
	}
}

func TestBesideAnotherPluginNothingIsDoneToTheGPUs(t *testing.T) {
	node, err := allocation.New(t.Context(), allocation.Options{CDIDir: t.TempDir(), DeviceDir: t.TempDir(), Pods: noPods{}})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	a := &agent{o: Options{Allocation: api.AllocationCommitted, KubeletDir: t.TempDir()}, node: node}
	shared := Status{InForce: true, Settings: config.DefaultSettings(), Snapshot: nvml.Snapshot{GPUs: []nvml.GPU{gpuNamed(0, "GPU-a")}}}
	shared.Settings.Strategy, shared.Settings.Replicas = gpu.SharingMPS, map[string]int{gpu.ResourceGPU: 4}
	for _, c := range []struct {
		detail, why string
		served      int // GPUs by MPS
	}{
		{"", "", 1},
		{"another", "another device plugin serves GPUs of this node; the GPUs are not changed, because it can allocate them to pods at any time", 0},
		{"", "", 1},
	} {
		a.setOtherPlugin("nvidia.com/gpu", c.detail)
		if got := a.otherPlugin(t.Context()); got != c.why {
			t.Errorf("after %q the other plugin is %q, want %q", c.detail, got, c.why)
		}
		if got := wantMPS(shared, a.others.any()); len(got.GPUs) != c.served {
			t.Errorf("after %q MPS is to serve %v, want %d GPUs", c.detail, got.GPUs, c.served)
		}
	}
}
