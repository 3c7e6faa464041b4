package ledger_test

import (
	"log/slog"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/agent/allocation/checkpoint"
	"berth.dev/berth/agent/allocation/ledger"
	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/agent/config"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

const resourceGPU = "nvidia.com/gpu"

// two returns a ledger of two whole GPUs, GPU-0 and GPU-1.
func two(t *testing.T) *ledger.Ledger {
	t.Helper()
	l := ledger.New(false, slog.New(slog.DiscardHandler))
	gpus := []gpu.GPU{
		{Index: 0, UUID: "GPU-0", Product: "NVIDIA A100-SXM4-40GB", MemoryBytes: 40 << 30, Healthy: true},
		{Index: 1, UUID: "GPU-1", Product: "NVIDIA A100-SXM4-40GB", MemoryBytes: 40 << 30, Healthy: true},
	}
	if err := l.SetGPUs(gpus, config.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	l.Recount()
	return l
}

// request returns that of a pod with one container, to which a GPU is committed and
// for which the kubelet chose a placeholder ID.
func request(name, uuid, id string) *ledger.Request {
	one := v1.ResourceList{resourceGPU: resource.MustParse("1")}
	entry := checkpoint.Entry{PodUID: name, Container: "c", Resource: resourceGPU, DeviceIDs: []string{id}, Nonce: "nonce-" + name}
	return &ledger.Request{
		Pod: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Limits: one, Requests: one}}}},
		},
		Committed: map[string][]sharing.Named{"c": {{UUID: uuid, MilliGPU: 1000, MemoryBytes: 40 << 30}}},
		Starting:  []checkpoint.Entry{entry}, All: []checkpoint.Entry{entry},
	}
}

// A pod gets its commitment although the kubelet chose the other GPU's placeholder,
// another pod is refused the device until the first is released.
func TestAReservedDeviceIsRefusedToOthersUntilItIsReleased(t *testing.T) {
	l := two(t)
	r, err := l.Reserve(request("a", "GPU-1", "gpu-0"))
	if err != nil {
		t.Fatal(err)
	}
	if outdated := l.Confirm(r); len(outdated) > 0 {
		t.Errorf("Confirm of a first record = %v, want no outdated nonce", outdated)
	}
	if got := l.Holders(); len(got) != 1 || got[0].Devices[0].UUID != "GPU-1" || !got[0].Committed {
		t.Errorf("Holders = %+v, want a with GPU-1, committed", got)
	}
	if l.Differences() != 1 {
		t.Errorf("Differences = %d, want 1: the kubelet chose GPU-0's placeholder", l.Differences())
	}
	if _, err := l.Reserve(request("b", "GPU-1", "gpu-1")); !notice.IsFor(err, notice.ReasonTaken) {
		t.Errorf("Reserve of a held device = %v, want a refusal for %q", err, notice.ReasonTaken)
	}
	if released := l.Release("a"); released == nil || released.Pod != "a" {
		t.Fatalf("Release = %+v, want the record of a", released)
	}
	if _, err := l.Reserve(request("b", "GPU-1", "gpu-1")); err != nil {
		t.Errorf("Reserve of a released device = %v", err)
	}
}

func TestACanceledReservationHoldsNothing(t *testing.T) {
	l := two(t)
	if _, err := l.Reserve(request("a", "GPU-0", "gpu-0")); err != nil {
		t.Fatal(err)
	}
	l.Cancel("a")
	if held := l.Held(); len(held) > 0 {
		t.Errorf("Held after Cancel = %v, want nothing", held)
	}
}

func TestDevicesOfOthersAreUnhealthyUntilOtherPluginsAreKnown(t *testing.T) {
	l := two(t)
	for _, known := range []bool{false, true} {
		for _, d := range l.Offers(known)[resourceGPU] {
			if d.Healthy != known {
				t.Errorf("Offers(%v): %s is healthy: %v", known, d.ID, d.Healthy)
			}
		}
	}
}
