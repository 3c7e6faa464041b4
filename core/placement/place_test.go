package placement_test

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim/baseline"
)

// randomCluster makes nodes of two products, some with MIG, cliques and little
// memory.
func randomCluster(t testing.TB, rng *rand.Rand, nodes int) *cluster.Snapshot {
	t.Helper()
	var specs []cluster.Spec
	for i := range nodes {
		spec := cluster.Spec{
			Name: fmt.Sprintf("n%03d", i), CPUMilli: int64(8+rng.Intn(120)) * 1000,
			MemoryBytes: int64(32+rng.Intn(900)) << 30, Recut: cluster.Recut(rng.Intn(3)),
		}
		product := []string{"Tesla T4", "NVIDIA A100-SXM4-40GB"}[rng.Intn(2)]
		cut := product != "Tesla T4" && rng.Intn(2) == 0
		for j := range []int{0, 1, 2, 4, 8}[rng.Intn(5)] {
			p, _ := gpu.Find(product)
			g := gpu.GPU{Index: j, Product: product, MemoryBytes: p.MemoryMiB << 20, Healthy: rng.Intn(20) > 0, Clique: 1 + j/4}
			if cut {
				g.MIGEnabled = true
				g.MIG, _ = gpu.Layout(p, []string{"3g.20gb", "1g.5gb", "2g.10gb"})
			}
			spec.GPUs = append(spec.GPUs, g)
		}
		specs = append(specs, spec)
	}
	s, err := cluster.New(specs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// randomRequest asks for one of the kinds of devices, or none.
func randomRequest(s *cluster.Snapshot, rng *rand.Rand) cluster.Request {
	r := cluster.Request{CPUMilli: int64(rng.Intn(9)) * 1000, MemoryBytes: int64(rng.Intn(32)) << 30}
	if rng.Intn(4) == 0 {
		r.Products, _ = s.Products(s.ProductNames()[rng.Intn(len(s.ProductNames()))])
	}
	switch rng.Intn(8) {
	case 0:
		r.Products = 0
	case 1, 2:
		r.GPUs, r.MilliGPU, r.OneClique = int32(1+rng.Intn(8)), cluster.Whole, rng.Intn(2) == 0
	case 3:
		r.GPUs, r.GPUMemoryBytes = 1, int64(1+rng.Intn(20))<<30
	case 4:
		r.GPUs, r.Profile = int32(1+rng.Intn(3)), []string{"1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"}[rng.Intn(4)]
	case 5:
		r.GPUs, r.MilliGPU = int32(1+rng.Intn(2)), int32(100+rng.Intn(500))
	default:
		r.GPUs, r.MilliGPU = 1, int32(1+rng.Intn(100))*10
	}
	return r
}

// typical is a mix for policies that want one.
func typical(s *cluster.Snapshot, seed int64) []placement.Class {
	rng := rand.New(rand.NewSource(seed))
	var out []placement.Class
	for range 30 {
		out = append(out, placement.Class{Request: randomRequest(s, rng), Weight: float64(1 + rng.Intn(20))})
	}
	return out
}

// check says what is wrong with the books of s, given what is held.
func check(t *testing.T, s *cluster.Snapshot, held []cluster.Placement) {
	t.Helper()
	type key struct{ node, gpu int }
	milli, bytes, slots := map[key]int32{}, map[key]int64{}, map[key]uint{}
	cpu, memory := map[int]int64{}, map[int]int64{}
	for _, p := range held {
		cpu[p.Node] += p.Request.CPUMilli
		memory[p.Node] += p.Request.MemoryBytes
		for _, d := range p.Devices {
			k := key{p.Node, int(d.GPU)}
			milli[k] += d.MilliGPU
			bytes[k] += d.MemoryBytes
			if d.Profile == 0 {
				continue
			}
			size := s.Profiles(int(s.GPUs(p.Node)[d.GPU].Product))[d.Profile-1].Size
			mask := (uint(1)<<size - 1) << d.Start
			if slots[k]&mask != 0 {
				t.Fatalf("node %d GPU %d: a MIG slice is held twice", p.Node, d.GPU)
			}
			slots[k] |= mask
		}
	}
	for i := range s.Len() {
		n := s.Node(i)
		if cpu[i] > n.CPUMilli || memory[i] > n.MemoryBytes || n.FreeCPUMilli != n.CPUMilli-cpu[i] || n.FreeMemoryBytes != n.MemoryBytes-memory[i] {
			t.Fatalf("node %d: held %d milli-CPU, %d bytes: %+v", i, cpu[i], memory[i], *n)
		}
		for j, g := range s.GPUs(i) {
			k, total := key{i, j}, s.Cards(i)[j].MemoryBytes
			if milli[k] > cluster.Whole || bytes[k] > total || g.FreeMilli != cluster.Whole-milli[k] || g.FreeBytes != total-bytes[k] {
				t.Fatalf("node %d GPU %d: held %d milli-GPUs and %d bytes: %+v", i, j, milli[k], bytes[k], g)
			}
			if slots[k] != 0 && !g.MIG {
				t.Fatalf("node %d GPU %d: holds MIG devices and is not in MIG mode", i, j)
			}
		}
	}
}

// TestIndexEqualsScan runs both placers over the same arrivals, departures,
// failures of GPUs and undone trials, and compares every decision; the books
// are checked against a plain list of what is held.
func TestIndexEqualsScan(t *testing.T) {
	for _, name := range baseline.Names() {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(6) {
				twins(t, name, seed)
			}
		})
	}
}

func twins(t *testing.T, name string, seed int64) {
	rng := rand.New(rand.NewSource(seed))
	s := randomCluster(t, rng, 40+rng.Intn(100))
	fast, slow := s.Clone(), s.Clone()
	ranks := make([]int32, s.Len())
	for i, r := range rng.Perm(s.Len()) {
		ranks[i] = int32(r)
	}
	make1, err := baseline.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	rand1, rand2 := rand.New(rand.NewSource(seed)).Intn, rand.New(rand.NewSource(seed)).Intn
	x := placement.NewIndex(fast, make1(placement.Setup{Cluster: fast, Typical: typical(s, seed), Rand: rand1}), ranks, rand1)
	y := placement.NewScan(slow, make1(placement.Setup{Cluster: slow, Typical: typical(s, seed), Rand: rand2}), ranks, rand2)
	shapes := make([]cluster.Request, 25)
	for i := range shapes {
		shapes[i] = randomRequest(s, rng)
		shapes[i].Class = uint32(max(0, i-20))
		shapes[i].Units = i%5 == 0 && shapes[i].IsWhole()
		shapes[i].SharesDo = shapes[i].Units && i%10 == 0
	}
	both := []*cluster.Snapshot{fast, slow}
	for class := uint32(1); class < 5; class++ {
		for _, s := range both {
			s.SetClass(class, verdicts(s.Len(), seed+int64(class)))
		}
	}
	var held []cluster.Placement
	now := int64(1_000_000)
	for range 700 {
		switch k := rng.Intn(13); {
		case k == 10:
			class, i := uint32(1+rng.Intn(4)), rng.Intn(s.Len())
			v := cluster.Verdict{Reason: uint8(rng.Intn(2)), Bonus: int32(rng.Intn(3) * 100)}
			for _, s := range both {
				s.SetVerdict(class, i, v)
			}
		case k == 11:
			i, cpu, pods := rng.Intn(s.Len()), rng.Int63n(20000), rng.Int31n(3)
			for _, s := range both {
				s.SetBase(i, cpu, cpu<<20, pods)
			}
		case k == 12:
			i, other := rng.Intn(s.Len()), specOf(s, rng.Intn(s.Len()))
			if other.Name = s.Node(i).Name; len(other.GPUs) != len(s.GPUs(i)) {
				continue
			}
			other.Shares, other.SharesDo, other.Pods = 1+rng.Int31n(3), rng.Intn(3) == 0, rng.Int31n(8)
			for k, s := range both {
				for _, p := range held {
					if p.Node != i {
						continue
					}
					if err := s.Release(&p); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Replace(i, &other); err != nil {
					t.Fatal(err)
				}
				if k == 1 {
					held = slices.DeleteFunc(held, func(p cluster.Placement) bool { return p.Node == i })
				}
			}
		case k < 3 && len(held) > 0:
			i := rng.Intn(len(held))
			for _, s := range []*cluster.Snapshot{fast, slow} {
				if err := s.Release(&held[i]); err != nil {
					t.Fatal(err)
				}
			}
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		case k == 3:
			i := rng.Intn(s.Len())
			if n := len(s.GPUs(i)); n > 0 {
				j, healthy := rng.Intn(n), rng.Intn(3) > 0
				fast.SetHealthy(i, j, healthy)
				slow.SetHealthy(i, j, healthy)
			}
		case k == 4 && name != "random": // random draws more often for one than for the other
			m := fast.Mark()
			for range 5 {
				if _, _, err := placement.Place(x, &shapes[rng.Intn(len(shapes))]); err != nil {
					t.Fatal(err)
				}
			}
			fast.RollBack(m)
		case k == 4: // nothing to try
		default:
			r := &shapes[rng.Intn(len(shapes))]
			x.Arrive(r)
			y.Arrive(r)
			var stay placement.Stay
			if rng.Intn(2) == 0 {
				stay.Run = 1 + rng.Int63n(1000)
				stay.Ends = now + stay.Run
			}
			now += rng.Int63n(50)
			a, okA, errA := placement.PlaceFor(x, r, stay)
			b, okB, errB := placement.PlaceFor(y, r, stay)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			if diff := cmp.Diff(b, a); diff != "" || okA != okB {
				t.Fatalf("seed %d, request %+v: index %v, scan %v; -scan +index:\n%s", seed, *r, okA, okB, diff)
			}
			if !okA {
				if diff := cmp.Diff(counted(slow, r), x.Reasons(r)); diff != "" {
					t.Fatalf("seed %d, request %+v: reasons, -scan +index:\n%s", seed, *r, diff)
				}
				x.Refuse(r)
				y.Refuse(r)
				continue
			}
			held = append(held, a)
		}
	}
	for i := range s.Len() {
		fast.SetBase(i, 0, 0, 0)
		slow.SetBase(i, 0, 0, 0)
	}
	if !fast.Equal(slow) {
		t.Fatal("the snapshots differ at the end")
	}
	check(t, fast, held)
}

// verdicts are those of a random class.
func verdicts(nodes int, seed int64) []cluster.Verdict {
	rng, out := rand.New(rand.NewSource(seed)), make([]cluster.Verdict, nodes)
	for i := range out {
		out[i] = cluster.Verdict{Reason: uint8(max(0, rng.Intn(6)-3)), Bonus: int32(rng.Intn(2) * 5000)}
	}
	return out
}

// specOf describes node i as it is with nothing held.
func specOf(s *cluster.Snapshot, i int) cluster.Spec {
	n := s.Node(i)
	spec := cluster.Spec{Name: n.Name, CPUMilli: n.CPUMilli, MemoryBytes: n.MemoryBytes}
	for j, c := range s.Cards(i) {
		g := gpu.GPU{Index: c.Index, Product: s.ProductNames()[s.GPUs(i)[j].Product], MemoryBytes: c.MemoryBytes, Healthy: j%3 > 0, Clique: c.Clique}
		spec.GPUs, spec.Recut = append(spec.GPUs, g), c.Recut
	}
	return spec
}

// counted counts reasons node by node.
func counted(s *cluster.Snapshot, r *cluster.Request) []placement.Count {
	counts := map[placement.Count]int{}
	for i := range s.Len() {
		c := placement.Count{Reason: placement.Fit(s, i, r)}
		if c.Reason == placement.Excluded {
			c.Why = s.Verdict(r.Class, i).Reason
		}
		counts[c]++
	}
	var out []placement.Count
	for why := range uint8(4) {
		if n := counts[placement.Count{Reason: placement.Excluded, Why: why}]; n > 0 {
			out = append(out, placement.Count{Reason: placement.Excluded, Why: why, Nodes: n})
		}
	}
	for _, reason := range []placement.Reason{
		placement.TooManyPods, placement.NotEnoughCPU, placement.NotEnoughMemory, placement.WrongProduct, placement.NotEnoughGPUs,
		placement.NotEnoughGPUMemory, placement.NoMIGPlacement, placement.NotOneClique,
	} {
		if n := counts[placement.Count{Reason: reason}]; n > 0 {
			out = append(out, placement.Count{Reason: reason, Nodes: n})
		}
	}
	return out
}

func TestNothingThatFitsIsRefused(t *testing.T) {
	rng := rand.New(rand.NewSource(7))
	s := randomCluster(t, rng, 60)
	x := placement.NewIndex(s, placement.NewBerth(placement.Setup{Cluster: s}, placement.DefaultParams()), nil, nil)
	for range 2000 {
		r := randomRequest(s, rng)
		fits := false
		for i := range s.Len() {
			fits = fits || placement.Fit(s, i, &r) == placement.Fits
		}
		x.Arrive(&r)
		if _, ok, err := placement.Place(x, &r); ok != fits || err != nil {
			t.Fatalf("%+v: fits %v, placed %v, %v", r, fits, ok, err)
		}
	}
}

// TestFGDEqualsItsDefinition compares fgd's tables with the sum that defines
// them, on clusters and mixes as the paper has them.
func TestFGDEqualsItsDefinition(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	s := randomCluster(t, rng, 30)
	shape := func() cluster.Request {
		r := cluster.Request{CPUMilli: int64(rng.Intn(30)) * 1000}
		if rng.Intn(3) == 0 {
			r.Products, _ = s.Products("Tesla T4")
		}
		switch rng.Intn(3) {
		case 0:
			r.GPUs, r.MilliGPU = 1, int32(1+rng.Intn(100))*10
		case 1:
			r.GPUs, r.MilliGPU = int32(1<<rng.Intn(4)), cluster.Whole
		}
		return r
	}
	mix := placement.NewMix()
	for range 18 {
		r := shape()
		mix.Add(&r, 1)
	}
	classes := mix.Classes()
	x := placement.NewIndex(s, baseline.NewFGD(placement.Setup{Cluster: s, Typical: classes}), nil, nil)
	for range 400 {
		r := shape()
		for i := range s.Len() {
			if placement.Fit(s, i, &r) != placement.Fits {
				continue
			}
			want := definedFGD(s, i, &r, classes)
			if got := x.Policy().Score(s, i, &r); !cmp.Equal(float64(got), want, cmpopts.EquateApprox(0, 0.5)) {
				t.Fatalf("node %d, %+v: score %d, by definition %v", i, r, got, want)
			}
		}
		if _, _, err := placement.Place(x, &r); err != nil {
			t.Fatal(err)
		}
	}
}

// definedFGD is the score of fgd by the paper's definition.
func definedFGD(s *cluster.Snapshot, i int, r *cluster.Request, classes []placement.Class) float64 {
	n := s.Node(i)
	fragmented := func(free []int32, cpu int64) float64 {
		total, sum := 0.0, 0.0
		for _, c := range classes {
			total += c.Weight
		}
		for _, c := range classes {
			m := &c.Request
			var all, small float64
			enough := int32(0)
			for _, f := range free {
				all += float64(f)
				if f < m.MilliGPU {
					small += float64(f)
				} else {
					enough++
				}
			}
			if m.GPUs == 0 || m.Products != 0 && m.Products&n.Products == 0 || m.CPUMilli > cpu || enough < m.GPUs {
				small = all
			}
			sum += c.Weight / total * small
		}
		return sum
	}
	var free []int32
	for _, o := range s.Open(i) {
		free = append(free, int32(o))
	}
	before := fragmented(free, n.FreeCPUMilli)
	score := func(after []int32) float64 {
		less := before - fragmented(after, n.FreeCPUMilli-r.CPUMilli)
		return math.Floor(100 / (1 + math.Exp(-math.Round(less*1e6)/1e9)))
	}
	if r.GPUs == 0 {
		return score(free)
	}
	if r.IsWhole() {
		after := slices.Clone(free)
		for j, need := 0, r.GPUs; need > 0; j++ {
			if after[j] == cluster.Whole {
				after[j] = 0
				need--
			}
		}
		return score(after)
	}
	best := 0.0
	for j := range free {
		if free[j] >= r.MilliGPU {
			after := slices.Clone(free)
			after[j] -= r.MilliGPU
			best = max(best, score(after))
		}
	}
	return best
}
