package sharing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

func ledger(t testing.TB, gpus []gpu.GPU, s gpu.Sharing) *sharing.Ledger {
	t.Helper()
	l, err := sharing.NewLedger(gpus, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// take runs steps such as "a 2" (owner a takes 2), "-a" (a releases), and
// "b mem 6"; the answer to the last is the GPU indexes, with replicas if
// shared, or the error.
func take(t *testing.T, l *sharing.Ledger, resource string, steps ...string) string {
	t.Helper()
	last := ""
	for _, step := range steps {
		if owner, ok := strings.CutPrefix(step, "-"); ok {
			l.Release(owner)
			continue
		}
		var owner, text string
		var n int
		var devs []sharing.Device
		var err error
		if _, e := fmt.Sscanf(step, "%s mem %d", &owner, &n); e == nil {
			var d sharing.Device
			d, err = l.TakeMemory(owner, int64(n))
			devs = []sharing.Device{d}
		} else if _, e := fmt.Sscanf(step, "%s %d", &owner, &n); e == nil {
			devs, err = l.Take(owner, resource, n)
		} else {
			t.Fatalf("step %q", step)
		}
		for _, d := range devs {
			text += fmt.Sprintf(" %d", d.GPU)
			if d.ID != d.UUID {
				text += ":" + strings.TrimPrefix(d.ID, d.UUID+"::")
			}
		}
		last = strings.TrimSpace(text)
		if err != nil {
			last = err.Error()
		}
	}
	return last
}

func TestTake(t *testing.T) {
	packed := slicing("nvidia.com/gpu", 4)
	packed.Packed = true
	single := slicing("nvidia.com/gpu", 4)
	single.FailRequestsGreaterThanOne = true
	cliques := node(t, a100, 4)
	for i := range cliques {
		cliques[i].NUMANode, cliques[i].Clique = -1, 1+i%2 // 0 and 2, 1 and 3
	}
	sick := node(t, a100, 4)
	sick[1].Healthy = false
	allSick := node(t, a100, 1)
	allSick[0].Healthy = false
	tests := []struct {
		name    string
		gpus    []gpu.GPU
		sharing gpu.Sharing
		steps   []string
		want    string
	}{
		{"the lowest index first", node(t, a100, 8), gpu.Sharing{}, []string{"a 1"}, "0"},
		// NUMA 0 has 1 2 3 left, NUMA 1 has 4 to 7: four only fit there.
		{"one NUMA node where one has enough", node(t, a100, 8), gpu.Sharing{}, []string{"a 1", "b 4"}, "4 5 6 7"},
		{"the NUMA node with the fewest that has enough", node(t, a100, 8), gpu.Sharing{}, []string{"a 1", "b 2"}, "1 2"},
		{"across NUMA nodes by index", node(t, a100, 8), gpu.Sharing{}, []string{"a 1", "b 1", "c 5"}, "2 3 4 5 6"},
		{"one NVLink clique", cliques, gpu.Sharing{}, []string{"a 2"}, "0 2"},
		{"the clique with the fewest that has enough", cliques, gpu.Sharing{}, []string{"a 1", "b 1", "-b", "c 2"}, "1 3"},
		{"unhealthy GPUs are not given", sick, gpu.Sharing{}, []string{"a 3"}, "0 2 3"},
		{"released GPUs are given again", node(t, a100, 2), gpu.Sharing{}, []string{"a 2", "-a", "b 1"}, "0"},
		{
			"shares go to the GPU with the fewest held", node(t, "Tesla T4", 2), slicing("nvidia.com/gpu", 4),
			[]string{"a 1", "b 1", "c 1"},
			"0:1",
		},
		{"two shares of one call are on two GPUs", node(t, "Tesla T4", 2), slicing("nvidia.com/gpu", 4), []string{"a 2"}, "0:0 1:0"},
		{"more shares than GPUs", node(t, "Tesla T4", 2), slicing("nvidia.com/gpu", 4), []string{"a 3"}, "0:0 1:0 0:1"},
		{"packed fills one GPU first", node(t, "Tesla T4", 2), packed, []string{"a 3", "b 2"}, "0:3 1:0"},
		{
			"MIG devices are spread over GPUs", node(t, a100, 2, "3g.20gb", "3g.20gb"),
			gpu.Sharing{MIGStrategy: gpu.MIGSingle},
			[]string{"a 1", "b 1", "c 2"},
			"0 1",
		},
		{"none is no error", node(t, a100, 1), gpu.Sharing{}, []string{"a 0"}, ""},
		{
			"too few are left", node(t, a100, 2),
			gpu.Sharing{},
			[]string{"a 1", "b 2"},
			"Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 2, Available: 1, which is unexpected",
		},
		{
			"none is healthy", allSick,
			gpu.Sharing{},
			[]string{"a 1"},
			"Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected",
		},
		{
			"requests of more than one share can be refused", node(t, a100, 2), single,
			[]string{"a 2"},
			"Allocate failed due to rpc error: code = Unknown desc = invalid request: maximum request size for shared resources is 1; found 2, which is unexpected",
		},
		{"one share then is fine", node(t, a100, 2), single, []string{"a 1"}, "0:0"},
		{"a negative number", node(t, a100, 2), gpu.Sharing{}, []string{"a -1"}, "-1 devices of nvidia.com/gpu: ask for 0 at least"},

		{"memory goes to the GPU with the least left", node(t, "Tesla T4", 2), gpu.Sharing{}, []string{"a mem 6", "b mem 6"}, "0:mem-6-1"},
		// 15 - 12 = 3 left on GPU 0.
		{"memory that no longer fits goes to the next", node(t, "Tesla T4", 2), gpu.Sharing{}, []string{"a mem 12", "b mem 4"}, "1:mem-4-0"},
		{"a GPU shared by memory is not given whole", node(t, "Tesla T4", 2), gpu.Sharing{}, []string{"a mem 1", "b 1"}, "1"},
		{"a whole GPU gives no memory", node(t, "Tesla T4", 2), gpu.Sharing{}, []string{"a 1", "b mem 1"}, "1:mem-1-0"},
		{"a GPU whose memory is free again is given whole", node(t, "Tesla T4", 1), gpu.Sharing{}, []string{"a mem 5", "b mem 5", "-a", "-b", "c 1"}, "0"},
		{
			"memory beyond one GPU", node(t, "Tesla T4", 2),
			gpu.Sharing{},
			[]string{"a mem 16"},
			"Allocate failed due to requested number of devices unavailable for nvidia.com/gpu-memory. Requested: 16, Available: 15, which is unexpected",
		},
		{
			"time-sliced GPUs offer no memory", node(t, "Tesla T4", 2), slicing("nvidia.com/gpu", 2),
			[]string{"a mem 1"},
			"Allocate failed due to requested number of devices unavailable for nvidia.com/gpu-memory. Requested: 1, Available: 0, which is unexpected",
		},
		{"no memory at all", node(t, "Tesla T4", 2), gpu.Sharing{}, []string{"a mem 0"}, "a share of 0 GiB of GPU memory: ask for 1 at least"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := take(t, ledger(t, tt.gpus, tt.sharing), "nvidia.com/gpu", tt.steps...); got != tt.want {
				t.Errorf("%v = %q, want %q", tt.steps, got, tt.want)
			}
		})
	}
}

func TestTakeMemoryIsInProportion(t *testing.T) {
	l := ledger(t, node(t, "Tesla T4", 1), gpu.Sharing{})
	// 6 of 15 GiB.
	d, err := l.TakeMemory("a", 6)
	if err != nil || d.MilliGPU != 400 || d.MemoryBytes != 6*sharing.GiB || d.Resource != "nvidia.com/gpu-memory" {
		t.Errorf("TakeMemory(6) = %+v, %v", d, err)
	}
}

func TestRestore(t *testing.T) {
	gpus := node(t, "Tesla T4", 2)
	u0, u1 := gpus[0].UUID, gpus[1].UUID
	tests := []struct {
		name string
		ids  []string
		want string // error, "" is none
	}{
		{"a free GPU", []string{u1}, ""},
		{"what the owner holds already", []string{u1, u1}, ""},
		{"a device of another", []string{u1, u0}, "restore device " + u0 + " of b: it is held by a"},
		{"memory of a GPU that is held whole", []string{u0 + "::mem-1-0"}, "restore device " + u0 + "::mem-1-0 of b: the whole GPU is held by a"},
		{"memory beyond the GPU", []string{u1 + "::mem-10-0", u1 + "::mem-6-0"}, "restore device " + u1 + "::mem-6-0 of b: its GPU has 5 GiB left of 15 GiB"},
		{"memory and the whole GPU", []string{u1 + "::mem-10-0", u1}, "restore device " + u1 + " of b: its memory is held by b"},
		{"a device that is not offered", []string{u1 + "::3"}, "restore device " + u1 + "::3 of b: this node does not offer it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := ledger(t, gpus, gpu.Sharing{})
			if err := l.Restore("a", []string{u0}); err != nil {
				t.Fatal(err)
			}
			before := l.Held()
			err := l.Restore("b", tt.ids)
			if got := fmt.Sprint(err); tt.want != "" && got != tt.want || tt.want == "" && err != nil {
				t.Errorf("Restore(b, %v): %v\nwant %s", tt.ids, err, tt.want)
			}
			if err != nil && !cmp.Equal(before, l.Held()) {
				t.Errorf("Restore(b, %v) refused, but left %v", tt.ids, l.Held())
			}
			if err != nil {
				if devs, err := l.Take("c", "nvidia.com/gpu", 1); err != nil || devs[0].UUID != u1 {
					t.Errorf("after a refusal, Take = %v, %v", devs, err)
				}
			}
		})
	}
	if err := ledger(t, gpus, gpu.Sharing{}).Restore("", []string{u0}); err == nil {
		t.Error("Restore without an owner is no error")
	}
}

func TestResetKeepsWhatIsStillOffered(t *testing.T) {
	gpus := node(t, "Tesla T4", 3)
	l := ledger(t, gpus, gpu.Sharing{})
	take(t, l, "nvidia.com/gpu", "whole 1", "memory mem 4", "both 1", "both mem 3")
	sick := slices.Clone(gpus)
	sick[2].Healthy = false // the smaller NUMA node, so the first to be taken
	if gone, err := l.Reset(sick, gpu.Sharing{}); err != nil || len(gone) > 0 {
		t.Errorf("Reset to an unhealthy GPU: gone %v, %v", gone, err)
	}
	if h := l.Held(); len(h) != 4 || h[3].Owner != "whole" || h[3].Device.Healthy {
		t.Errorf("Held after a fault = %+v", h)
	}
	bad := slicing("nvidia.com/gpu", 99)
	bad.Strategy = gpu.SharingMPS
	if _, err := l.Reset(gpus, bad); err == nil || len(l.Held()) != 4 {
		t.Errorf("Reset to an impossible sharing: %v, %d held", err, len(l.Held()))
	}
	// Shares have IDs of their own: no device of before is offered.
	gone, err := l.Reset(gpus, slicing("nvidia.com/gpu", 2))
	if diff := cmp.Diff([]string{"both", "memory", "whole"}, gone); diff != "" || err != nil || len(l.Held()) != 0 {
		t.Errorf("Reset to time-slicing: %v, %d held, gone (-want +got):\n%s", err, len(l.Held()), diff)
	}
}
