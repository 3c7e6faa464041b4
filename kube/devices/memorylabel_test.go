package devices_test

import (
	"maps"
	"testing"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/kubetest"
)

func TestMemoryAsPeopleWriteIt(t *testing.T) {
	for text, want := range map[string]int64{
		"40gb": 40960, "40GB": 40960, "40Gi": 40960, "40GiB": 40960, "40g": 40960, "40": 40960, "40960": 40960, "40960MiB": 40960, "16-GB": 16384,
		"": 0, "large": 0, "-4gb": 0, "40tb": 0, "0": 0, "99999999999999999999gb": 0,
	} {
		if got, ok := devices.MemoryOf(text); got != want && ok || ok != (want > 0) {
			t.Errorf("MemoryOf(%q) = %d, %v; want %d", text, got, ok, want)
		}
	}
}

// TestMemoryOfANodeWithoutInventory reads the memory of the GPUs of a node that publishes
// no inventory: GPU Feature Discovery's label, then the product, then a label that people
// have written.
//
// rows: AS-65
func TestMemoryOfANodeWithoutInventory(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		want   int64 // MiB
	}{
		"the label of GPU Feature Discovery": {map[string]string{api.LabelMemory: "40536", "gpu-memory": "80gb", api.LabelProduct: "NVIDIA-A100-SXM4-40GB"}, 40536},
		"the product, without that label":    {map[string]string{"gpu-memory": "24gb", api.LabelProduct: "Tesla-T4"}, 15360},
		"a label that people have written":   {map[string]string{"gpu-memory": "40gb"}, 40960},
		"none":                               {nil, 0},
	} {
		node := kubetest.Foreign("n", map[string]string{}, api.ResourceGPU, 2)
		maps.Copy(node.Labels, c.labels)
		if got := devices.CountNode(node, nil, nil).GPUs[0].MemoryBytes >> 20; got != c.want {
			t.Errorf("%s: %d MiB, want %d", name, got, c.want)
		}
	}
}
