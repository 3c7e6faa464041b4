package serving_test

import (
	"fmt"
	"strings"
	"testing"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/serving"
)

func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		name, product, profile string
		devices                int
		gib, busy              float64
		want, why              string
	}{
		{"a small model fits into the smallest device", "NVIDIA A100-SXM4-40GB", "", 1, 3, 0.1, "1g.5gb x7, 4 GiB x8", ""},
		{"memory decides", "NVIDIA A100-SXM4-40GB", "", 1, 8, 0.1, "1g.10gb x4, 10 GiB x4", ""},
		{"work decides", "NVIDIA A100-SXM4-40GB", "", 1, 3, 0.3, "3g.20gb x2, 4 GiB x2", ""},
		{"a busy one needs all of it", "NVIDIA A100-SXM4-40GB", "", 1, 3, 0.95, "", "it needs most of a GPU: a whole one is right"},
		{"of a GPU without MIG there are shares", "Tesla T4", "", 1, 2, 0.2, "3 GiB x4", ""},
		{"its work on a MIG device is part of a GPU's", "NVIDIA A100-SXM4-40GB", "3g.20gb", 1, 3, 0.2, "1g.5gb x7, 4 GiB x9", ""},
		{"a server that takes what there is", "NVIDIA A100-SXM4-40GB", "", 1, 36, 0.1, "", "the server has 36.0 GiB of 40.0 GiB: servers such as vLLM and TensorFlow take what there is"},
		{"two GPUs where one would do", "NVIDIA A100-SXM4-40GB", "", 2, 30, 0.6, "", "which one GPU has: ask for 1 in place of 2"},
		{"two GPUs that it needs", "NVIDIA A100-SXM4-40GB", "", 2, 50, 0.6, "", "it needs 60.0 GiB, which is more than one GPU has"},
		{"nothing seen", "Tesla T4", "", 1, 0, 0, "", "no memory was seen in use"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, ok := gpu.Find(tt.product)
			if !ok {
				t.Fatal("no such product")
			}
			sizes, why := (&serving.Use{Product: p, Profile: tt.profile, Devices: tt.devices, MemoryBytes: int64(tt.gib * (1 << 30)), Busy: tt.busy}).Sizes()
			var got []string
			for _, s := range sizes {
				if s.MIG != "" {
					got = append(got, fmt.Sprintf("%s x%d", s.MIG, s.PerGPU))
				} else {
					got = append(got, fmt.Sprintf("%d GiB x%d", s.MemoryGiB, s.PerGPU))
				}
			}
			if text := strings.Join(got, ", "); text != tt.want || (why == "") != (tt.why == "") || !strings.Contains(why, tt.why) {
				t.Errorf("%s (%s), want %s (%s)", text, why, tt.want, tt.why)
			}
		})
	}
}
