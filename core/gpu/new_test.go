package gpu_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
)

func TestUUIDsAreFormedDistinctAndStable(t *testing.T) {
	form := regexp.MustCompile(`^GPU-[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen, starts := map[string]bool{}, map[string]bool{}
	p := find(t, "NVIDIA H100 80GB HBM3")
	for n := range 1000 {
		for _, g := range gpu.New(fmt.Sprintf("node-%d", n), p, 8) {
			if seen[g.UUID] || !form.MatchString(g.UUID) {
				t.Fatalf("UUID %s of node %d is malformed or given twice", g.UUID, n)
			}
			seen[g.UUID], starts[g.UUID[:12]] = true, true
		}
	}
	// 8000 of 2^32: about 0.007 pairs should agree in their first 8 digits.
	if len(starts) < 7998 {
		t.Errorf("%d different first groups of 8000 UUIDs", len(starts))
	}
	if a, b := gpu.UUID("GPU", "x"), gpu.UUID("GPU", "x"); a != b {
		t.Errorf("UUID differs for the same seed: %s, %s", a, b)
	}
	if a, b := gpu.UUID("GPU", "x"), gpu.UUID("MIG", "x"); a[4:] == b[4:] {
		t.Errorf("UUID has the same digits for both kinds: %s", a)
	}
}

func TestNew(t *testing.T) {
	type row struct {
		NUMA, Clique int
		Bus          string
	}
	tests := []struct {
		name, product string
		count         int
		want          []row
	}{
		{
			"halves on two NUMA nodes, one clique", "NVIDIA A100-SXM4-40GB", 4,
			[]row{{0, 1, "00000000:07:00.0"}, {0, 1, "00000000:0F:00.0"}, {1, 1, "00000000:47:00.0"}, {1, 1, "00000000:4E:00.0"}},
		},
		{"no clique without NVLink", "Tesla T4", 2, []row{{0, 0, "00000000:17:00.0"}, {1, 0, "00000000:31:00.0"}}},
		{"no clique of one", "NVIDIA H200", 1, []row{{0, 0, "00000000:07:00.0"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := find(t, tt.product)
			var got []row
			for i, g := range gpu.New("n1", p, tt.count) {
				if g.Index != i || !g.Healthy || g.MemoryBytes != p.MemoryMiB<<20 || g.Product != p.Name || g.MIGEnabled {
					t.Errorf("GPU %d = %+v", i, g)
				}
				got = append(got, row{g.NUMANode, g.Clique, g.BusID})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("New(n1, %s, %d) (-want +got):\n%s", tt.product, tt.count, diff)
			}
		})
	}
	for count := range 257 {
		gpus := gpu.New("n1", find(t, "Tesla T4"), count)
		buses := map[string]bool{}
		for _, g := range gpus {
			buses[g.BusID] = true
		}
		if len(buses) != count {
			t.Errorf("New with %d GPUs has %d PCI addresses", count, len(buses))
		}
	}
}

func TestCut(t *testing.T) {
	p := find(t, "NVIDIA A100-SXM4-40GB")
	gpus := gpu.New("n1", p, 2)
	for i := range gpus {
		if err := gpu.Cut(&gpus[i], p, slices.Repeat([]string{"1g.5gb"}, 7)); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for _, g := range gpus {
		for _, m := range g.MIG {
			seen[m.UUID] = true
		}
	}
	if len(seen) != 14 || !gpus[0].MIGEnabled {
		t.Errorf("Cut into 7 twice: %d different UUIDs, MIG %v", len(seen), gpus[0].MIGEnabled)
	}
	before := gpus[0]
	if err := gpu.Cut(&gpus[0], p, []string{"9g.1gb", "1g.5gb"}); err == nil || !cmp.Equal(before, gpus[0]) {
		t.Errorf("Cut into an unknown profile: %v, GPU changed: %v", err, !cmp.Equal(before, gpus[0]))
	}
	if err := gpu.Cut(&gpus[0], p, nil); err != nil || len(gpus[0].MIG) != 0 || !gpus[0].MIGEnabled {
		t.Errorf("Cut into nothing: %v, %+v", err, gpus[0])
	}
	t4 := gpu.New("n2", find(t, "Tesla T4"), 1)
	if err := gpu.Cut(&t4[0], find(t, "Tesla T4"), nil); err == nil {
		t.Error("Cut of a T4 is no error")
	}
}

func TestXid(t *testing.T) {
	// As NVIDIA's catalog: RESTART_APP and IGNORE leave a GPU healthy.
	healthy := []int{0, 8, 11, 13, 14, 25, 31, 32, 37, 38, 43, 44, 45, 60, 63, 66, 67, 68, 69, 80, 92, 93, 94, 106, 107, 108, 121, 137, 139, 141, 152, 153, 157, 160, 161, 162, 163}
	healthy = append(healthy, 39, 40, 41, 70, 71, 72, 75, 76, 77, 82, 83, 84, 85, 86, 88, 89)
	for code := range 200 {
		x := gpu.Xid(code)
		want := slices.Contains(healthy, code) || code >= 96 && code <= 105 || code >= 126 && code <= 135
		if x.Healthy != want || x.Code != code || x.Name == "" || x.Meaning == "" || x.Action == "" || x.Class == "" {
			t.Errorf("Xid(%d) = %+v", code, x)
		}
	}
	for code, want := range map[int]gpu.XidClass{
		63: gpu.XidNote, 94: gpu.XidApplication, 109: gpu.XidReset, 48: gpu.XidReset, 74: gpu.XidReset,
		54: gpu.XidSupport, 1: gpu.XidSupport, 777: gpu.XidSupport, 79: gpu.XidRestart,
	} {
		if got := gpu.Xid(code).Class; got != want {
			t.Errorf("Xid(%d).Class = %s, want %s", code, got, want)
		}
	}
	if got := gpu.Xid(79).Name; got != "GPU has fallen off the bus" {
		t.Errorf("Xid(79).Name = %q", got)
	}
	if got := gpu.Xid(777); got.Name != "Xid 777" || got.Healthy {
		t.Errorf("Xid(777) = %+v, want unknown and unhealthy", got)
	}
}
