package sharing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// TestNameDevicesHandsThemOutAsAllocateDoes allocates GPUs to random parts, and names the
// same GPUs, each once and in the order of their first use.
func TestNameDevicesHandsThemOutAsAllocateDoes(t *testing.T) {
	reused := 0
	for seed := range uint64(300) {
		chance := rand.New(rand.NewPCG(seed, 3))
		var gpus []gpu.GPU
		for j := range 12 {
			gpus = append(gpus, gpu.GPU{Index: j, UUID: fmt.Sprint("GPU-", j), Product: "Tesla T4", MemoryBytes: 16 << 30, Healthy: true})
		}
		l, err := sharing.NewLedger(gpus, gpu.Sharing{})
		if err != nil {
			t.Fatal(err)
		}
		var parts []sharing.Part
		for i := range 1 + chance.IntN(5) {
			parts = append(parts, sharing.Part{Name: fmt.Sprint("c", i), HandsOn: chance.IntN(2) == 0, Asks: whole(chance.Int64N(3))})
		}
		got, err := l.Allocate("pod", parts)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want, all := map[string][]sharing.Named{}, []sharing.Named(nil)
		for i := range parts {
			for _, d := range sharing.NamedOf(got[i]) {
				want[parts[i].Name] = append(want[parts[i].Name], d)
				if slices.Contains(all, d) {
					reused++
				} else {
					all = append(all, d)
				}
			}
		}
		named, ok := sharing.NameDevices(parts, all)
		if diff := cmp.Diff(want, named); diff != "" || !ok {
			t.Fatalf("seed %d, parts %+v: named %v; -allocated +named\n%s", seed, parts, ok, diff)
		}
		extra := sharing.Named{UUID: "GPU-one-too-many"}
		if _, ok := sharing.NameDevices(parts, append(all, extra)); ok {
			t.Fatalf("seed %d: a device that no part asks for is taken", seed)
		}
		if len(all) > 0 {
			if _, ok := sharing.NameDevices(parts, all[1:]); ok {
				t.Fatalf("seed %d: a device that a part asks for is missing, and all are named", seed)
			}
		}
	}
	if reused < 50 {
		t.Errorf("%d devices were used again: too few to show anything", reused)
	}
}
