package cluster_test

import (
	"math/rand"
	"slices"
	"strings"
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
)

func TestAClassAllowsWhatItsVerdictsSay(t *testing.T) {
	s := mixed(t, 4) // T4 and H100 nodes in turn
	out, good := cluster.Verdict{Reason: 3}, cluster.Verdict{Bonus: 100}
	s.SetClass(1, []cluster.Verdict{{}, out, good, out})
	all, _ := s.Products("Tesla T4")
	for _, tt := range []struct {
		name   string
		number uint32
		node   int
		want   cluster.Verdict
	}{
		{"as it was set", 1, 1, out},
		{"with its bonus", 1, 2, good},
		{"class 0 allows every node", 0, 1, cluster.Verdict{}},
		{"one that is not set allows every node", 9, 1, cluster.Verdict{}},
	} {
		if got := s.Verdict(tt.number, tt.node); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if got := s.ClassProducts(1); got != all {
		t.Errorf("its nodes have products %b, want %b", got, all)
	}
	before, clone := s.Now(), s.Clone()
	s.SetVerdict(1, 1, cluster.Verdict{})
	if got := s.ClassProducts(1); got != 0 {
		t.Errorf("with a node of each product it allows %b, want any", got)
	}
	if changed, _ := s.Changed(before); !slices.Equal(changed, []int32{1}) {
		t.Errorf("a verdict that changes logs nodes %v, want 1", changed)
	}
	if clone.Verdict(1, 1) != out || clone.ClassProducts(1) != all {
		t.Error("a clone sees what is changed later")
	}
	for i := range s.Len() {
		s.SetVerdict(1, i, out)
	}
	if got := s.ClassProducts(1); got != cluster.NoProduct {
		t.Errorf("with no node it allows %b, want none", got)
	}
	s.DropClass(1)
	if s.Verdict(1, 1) != (cluster.Verdict{}) || s.ClassProducts(1) != 0 {
		t.Error("a class that was dropped still says something")
	}
}

// TestTheBaseIsWhatIsLeftOver takes a base and placements in random order, and
// compares what is free with plain sums.
func TestTheBaseIsWhatIsLeftOver(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	s := snapshot(t, cluster.Spec{Name: "a", CPUMilli: 10, MemoryBytes: 10, Pods: 10})
	var held []cluster.Placement
	var cpu, pods int64
	base := int64(0)
	for range 2000 {
		switch rng.Intn(3) {
		case 0:
			p := cluster.Placement{Request: cluster.Request{CPUMilli: rng.Int63n(4)}}
			fits := p.Request.CPUMilli <= 10-cpu-base && pods+base < 10
			if err := s.Assume(&p); (err == nil) != fits {
				t.Fatalf("%d of %d milli-CPU and %d pods taken: %v", cpu+base, 10, pods+base, err)
			} else if fits {
				held, cpu, pods = append(held, p), cpu+p.Request.CPUMilli, pods+1
			}
		case 1:
			if len(held) > 0 {
				p := held[len(held)-1]
				if err := s.Release(&p); err != nil {
					t.Fatal(err)
				}
				held, cpu, pods = held[:len(held)-1], cpu-p.Request.CPUMilli, pods-1
			}
		case 2:
			base = min(rng.Int63n(6), 10-cpu, 10-pods)
			s.SetBase(0, base, 0, int32(base))
		}
		if n := s.Node(0); n.FreeCPUMilli != 10-cpu-base || int64(n.FreePods) != 10-pods-base {
			t.Fatalf("%d milli-CPU and %d pods are free; want %d and %d", n.FreeCPUMilli, n.FreePods, 10-cpu-base, 10-pods-base)
		}
	}
	s.SetBase(0, 1<<40, 1<<40, 1<<30)
	if n := s.Node(0); n.FreeCPUMilli != 0 || n.FreeMemoryBytes != 0 || n.FreePods != 0 {
		t.Errorf("more than there is leaves %+v", *n)
	}
}

func TestReplace(t *testing.T) {
	first, second := node("a", 2, cluster.RecutNever), node("b", 2, cluster.RecutNever)
	t4 := cluster.Spec{Name: "c", CPUMilli: 1, MemoryBytes: 1, GPUs: []gpu.GPU{{Product: "Tesla T4", MemoryBytes: 16 << 30, Healthy: true}}}
	other := func(edit func(*cluster.Spec)) cluster.Spec {
		spec := node("a", 2, cluster.RecutNever)
		edit(&spec)
		return spec
	}
	for _, tt := range []struct {
		name string
		spec cluster.Spec
		err  string // of Replace; "" is that it equals a new Snapshot
	}{
		{"nothing changes", first, ""},
		{"a GPU fails", other(func(n *cluster.Spec) { n.GPUs[1].Healthy = false }), ""},
		{"another size, shares and limit", other(func(n *cluster.Spec) { n.CPUMilli, n.Shares, n.Pods = 5, 4, 3 }), ""},
		{"another product that is known", other(func(n *cluster.Spec) { n.GPUs[1].Product = "Tesla T4" }), ""},
		{"another UUID and clique", other(func(n *cluster.Spec) { n.GPUs[0].UUID, n.GPUs[0].Clique = "GPU-new", 7 }), ""},
		{"another name", second, "replace node a: it cannot become b"},
		{"one GPU less", node("a", 1, cluster.RecutNever), "replace node a: 1 GPUs in place of 2"},
		{"a product that is not known", other(func(n *cluster.Spec) { n.GPUs[0].Product = "X" }), `replace node a: GPU product "X": no node has it`},
		{"a negative size", other(func(n *cluster.Spec) { n.CPUMilli = -1 }), "replace node a: -1 milli-CPU"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := snapshot(t, first, second, t4)
			clone := s.Clone()
			before := s.Clone()
			err := s.Replace(0, &tt.spec)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !s.Equal(before) {
					t.Fatalf("got %v, want %q and nothing changed", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := snapshot(t, tt.spec, second, t4)
			if !s.Equal(want) || s.ProductGPUs(0) != want.ProductGPUs(0) {
				t.Error("it differs from one that was made so")
			}
			if !clone.Equal(before) {
				t.Error("a clone has changed with it")
			}
		})
	}
}

func TestUnitsAreWhatTheNodeOffers(t *testing.T) {
	whole, shared := node("a", 1, cluster.RecutNever), node("b", 1, cluster.RecutNever)
	shared.Shares = 4
	s := snapshot(t, whole, shared)
	r := cluster.Request{GPUs: 1, MilliGPU: cluster.Whole, Units: true}
	for i, want := range []int32{1000, 250} {
		if got := s.Resolve(i, &r); got.MilliGPU != want || got.Units != (i == 1) {
			t.Errorf("on node %d: %+v, want %d milli-GPUs", i, got, want)
		}
	}
	if err := (&cluster.Request{GPUs: 1, MilliGPU: 500, Units: true}).Validate(); err == nil {
		t.Error("half a unit is accepted")
	}
}

func TestProductsWithMemory(t *testing.T) {
	s, err := cluster.New([]cluster.Spec{
		{Name: "a", GPUs: []gpu.GPU{{Product: "Tesla T4", MemoryBytes: 16 << 30, Healthy: true}}},
		{Name: "b", GPUs: []gpu.GPU{{Product: "NVIDIA H100 80GB HBM3", MemoryBytes: 80 << 30, Healthy: true}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		bytes int64
		want  []string
	}{
		{"all have so little", 1, []string{"Tesla T4", "NVIDIA H100 80GB HBM3"}},
		{"one has just so much", 16 << 30, []string{"Tesla T4", "NVIDIA H100 80GB HBM3"}},
		{"one has more", 16<<30 + 1, []string{"NVIDIA H100 80GB HBM3"}},
		{"none has so much", 80<<30 + 1, nil},
	} {
		want := cluster.NoProduct
		if tt.want != nil {
			if want, err = s.Products(tt.want...); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.ProductsWith(tt.bytes); got != want {
			t.Errorf("%s: products %b, want %b", tt.name, got, want)
		}
	}
}
