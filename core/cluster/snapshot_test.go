package cluster_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
)

const a100 = "NVIDIA A100-SXM4-40GB"

// node makes a node of A100s, each cut into the given MIG profiles.
func node(name string, gpus int, recut cluster.Recut, profiles ...string) cluster.Spec {
	p, _ := gpu.Find(a100)
	spec := cluster.Spec{Name: name, CPUMilli: 64000, MemoryBytes: 256 << 30, Recut: recut}
	for i := range gpus {
		g := gpu.GPU{Index: i, UUID: fmt.Sprintf("GPU-%s-%d", name, i), Product: a100, MemoryBytes: p.MemoryMiB << 20, Healthy: true, MIGEnabled: len(profiles) > 0}
		g.MIG, _ = gpu.Layout(p, profiles)
		spec.GPUs = append(spec.GPUs, g)
	}
	return spec
}

func snapshot(t testing.TB, specs ...cluster.Spec) *cluster.Snapshot {
	t.Helper()
	s, err := cluster.New(specs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// share is a placement of a share of GPU 0 of node 0.
func share(milli int32, bytes int64) *cluster.Placement {
	r := cluster.Request{CPUMilli: 1000, GPUs: 1, MilliGPU: milli}
	return &cluster.Placement{Request: r, Devices: []cluster.Device{{MilliGPU: milli, MemoryBytes: bytes}}}
}

func TestNewRefusesWhatIsNoCluster(t *testing.T) {
	many := make([]cluster.Spec, cluster.MaxProducts+1)
	for i := range many {
		many[i] = cluster.Spec{Name: fmt.Sprint(i), GPUs: []gpu.GPU{{Product: fmt.Sprint("P", i)}}}
	}
	for _, c := range []struct {
		name  string
		nodes []cluster.Spec
		want  string
	}{
		{"a node without a name", []cluster.Spec{{}}, `node 0: its name "" is empty or taken`},
		{"two nodes of one name", []cluster.Spec{{Name: "a"}, {Name: "a"}}, `node 1: its name "a" is empty or taken`},
		{"negative CPU", []cluster.Spec{{Name: "a", CPUMilli: -1}}, "node a: -1 milli-CPU"},
		{"too many GPUs", []cluster.Spec{{Name: "a", GPUs: make([]gpu.GPU, 128)}}, "node a: 128 GPUs: a node holds 127 at most"},
		{"too many products", many, `GPU product "P63": a snapshot holds 63 products at most`},
		{"a MIG device of another product", []cluster.Spec{{Name: "a", GPUs: []gpu.GPU{{Product: a100, MIGEnabled: true, MIG: []gpu.MIGDevice{{Profile: "1g.10gb", Start: 1}}}}}}, "node a: GPU 0: MIG device 1g.10gb at slice 1: it may start at [0 2 4 6], one at each"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := cluster.New(c.nodes); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %s", err, c.want)
			}
		})
	}
}

func TestAssumeRefusesWhatIsNotFree(t *testing.T) {
	s := snapshot(t, node("a", 1, cluster.RecutNever))
	total := s.Cards(0)[0].MemoryBytes
	if err := s.Assume(share(600, total/4)); err != nil {
		t.Fatal(err)
	}
	before := s.Clone()
	tooMuchCPU := share(100, 0)
	tooMuchCPU.Request.CPUMilli = 64000
	for name, p := range map[string]*cluster.Placement{
		"milli-GPUs that another share holds": share(500, 0),
		"memory that another share holds":     share(100, total),
		"no part at all":                      share(0, 0),
		"CPU that another share holds":        tooMuchCPU,
		"a node that is not there":            {Node: 7},
		"a GPU that is not there":             {Request: cluster.Request{GPUs: 1, MilliGPU: 1}, Devices: []cluster.Device{{GPU: 3, MilliGPU: 1}}},
		"a MIG device of a whole GPU":         {Request: cluster.Request{GPUs: 1, Profile: "1g.5gb"}, Devices: []cluster.Device{{Profile: 1, MilliGPU: 142}}},
		"one GPU twice": {
			Request: cluster.Request{GPUs: 2, MilliGPU: 300},
			Devices: []cluster.Device{{MilliGPU: 300}, {MilliGPU: 300}},
		},
	} {
		if err := s.Assume(p); err == nil {
			t.Errorf("%s: assumed", name)
		}
		if !s.Equal(before) {
			t.Fatalf("%s: refused, but the snapshot changed", name)
		}
	}
	if err := s.Release(share(601, 0)); err == nil {
		t.Error("released more than is held")
	}
}

func TestSharesByMilliNeverRunOutOfMemoryFirst(t *testing.T) {
	for _, total := range []int64{1, 999, 40<<30 - 1, 15360 << 20} {
		for milli := int32(1); milli <= cluster.Whole; milli++ {
			n := int64(cluster.Whole / milli)
			if used := n * cluster.ShareBytes(milli, total); used > total {
				t.Fatalf("%d shares of %d milli-GPUs take %d of %d bytes", n, milli, used, total)
			}
		}
	}
}

func TestMIGGeometryIsCutAnew(t *testing.T) {
	for _, c := range []struct {
		name    string
		recut   cluster.Recut
		has     []string
		hold    string // held before
		profile string
		want    string // starts, as bits from slice 7 down to 0
	}{
		{"a device that is there, where nothing may change", cluster.RecutNever, []string{"3g.20gb", "2g.10gb"}, "", "2g.10gb", "00010000"},
		{"none, where nothing may change", cluster.RecutNever, []string{"3g.20gb"}, "", "1g.5gb", "00000000"},
		{"a GPU that is not in MIG mode and may not be", cluster.RecutNever, nil, "", "1g.5gb", "00000000"},
		{"every place of an empty GPU", cluster.RecutEmpty, []string{"3g.20gb"}, "", "1g.5gb", "01111111"},
		{"the device that an empty GPU has, before it is cut anew", cluster.RecutEmpty, []string{"3g.20gb", "1g.5gb"}, "", "1g.5gb", "00010000"},
		{"nothing beside a held device", cluster.RecutEmpty, []string{"3g.20gb"}, "3g.20gb", "1g.5gb", "00000000"},
		{"every place beside a held device", cluster.RecutFree, []string{"3g.20gb"}, "3g.20gb", "2g.10gb", "00010000"},
		{"no compute slices left, though memory is", cluster.RecutFree, []string{"4g.20gb"}, "4g.20gb", "4g.20gb", "00000000"},
		{"a whole GPU that may be cut", cluster.RecutFree, nil, "", "7g.40gb", "00000001"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshot(t, node("a", 1, c.recut, c.has...))
			if c.hold != "" {
				d := s.MIGDevice(0, 0, s.ProfileNumber(0, c.hold), 0)
				if err := s.Assume(&cluster.Placement{Request: cluster.Request{GPUs: 1, Profile: c.hold}, Devices: []cluster.Device{d}}); err != nil {
					t.Fatal(err)
				}
			}
			if got := fmt.Sprintf("%08b", s.Starts(0, 0, s.ProfileNumber(0, c.profile))); got != c.want {
				t.Errorf("starts %s, want %s", got, c.want)
			}
		})
	}
}

func TestAnEmptyGPUGoesFromMIGToWholeAndBack(t *testing.T) {
	s := snapshot(t, node("a", 1, cluster.RecutEmpty, "1g.5gb", "1g.5gb"))
	total := s.Cards(0)[0].MemoryBytes
	p := &cluster.Placement{Request: cluster.Request{GPUs: 1, MilliGPU: 1000}, Devices: []cluster.Device{{MilliGPU: 1000, MemoryBytes: total}}}
	if err := s.Assume(p); err != nil || s.GPUs(0)[0].MIG {
		t.Fatalf("%v; MIG mode %v", err, s.GPUs(0)[0].MIG)
	}
	if err := s.Release(p); err != nil {
		t.Fatal(err)
	}
	d := s.MIGDevice(0, 0, s.ProfileNumber(0, "2g.10gb"), 2)
	if err := s.Assume(&cluster.Placement{Request: cluster.Request{GPUs: 1, Profile: "2g.10gb"}, Devices: []cluster.Device{d}}); err != nil {
		t.Fatal(err)
	}
	// Cut into as many of the profile as it holds, of which one is held.
	if got := fmt.Sprintf("%08b", s.Starts(0, 0, s.ProfileNumber(0, "2g.10gb"))); got != "00010001" || s.Open(0)[0] != 0 {
		t.Errorf("starts %s, %d milli-GPUs open", got, s.Open(0)[0])
	}
}

// TestRollBackRestoresExactly makes random changes inside nested marks.
func TestRollBackRestoresExactly(t *testing.T) {
	for seed := range int64(50) {
		rng := rand.New(rand.NewSource(seed))
		s := snapshot(t, node("a", 4, cluster.RecutFree, "3g.20gb"), node("b", 2, cluster.RecutEmpty), node("c", 8, cluster.RecutNever))
		held := change(s, rng, nil, 20)
		outer, outside := s.Mark(), s.Clone()
		held = change(s, rng, held, 20)
		inner, inside := s.Mark(), s.Clone()
		change(s, rng, held, 20)
		s.RollBack(inner)
		if !s.Equal(inside) {
			t.Fatalf("seed %d: the inner roll back left a change", seed)
		}
		s.RollBack(outer)
		if !s.Equal(outside) {
			t.Fatalf("seed %d: the outer roll back left a change", seed)
		}
	}
}

// change tries n random assumes, releases and failures, and gives what is held.
func change(s *cluster.Snapshot, rng *rand.Rand, held []*cluster.Placement, n int) []*cluster.Placement {
	held = append([]*cluster.Placement(nil), held...)
	for range n {
		i := rng.Intn(s.Len())
		j := rng.Intn(len(s.GPUs(i)))
		switch rng.Intn(4) {
		case 0:
			s.SetHealthy(i, j, rng.Intn(2) == 0)
		case 1:
			if len(held) > 0 {
				k := rng.Intn(len(held))
				if s.Release(held[k]) == nil {
					held = append(held[:k:k], held[k+1:]...)
				}
			}
		default:
			p := &cluster.Placement{Node: i, Request: cluster.Request{CPUMilli: int64(rng.Intn(3000)), GPUs: 1}, Ends: rng.Int63n(4)}
			if rng.Intn(2) == 0 {
				f := int8(1 + rng.Intn(len(s.Profiles(0))))
				p.Request.Profile = s.Profiles(0)[f-1].Name
				p.Devices = []cluster.Device{s.MIGDevice(i, j, f, rng.Intn(8))}
			} else {
				p.Request.MilliGPU = int32(1 + rng.Intn(1000))
				p.Devices = []cluster.Device{{GPU: int32(j), MilliGPU: p.Request.MilliGPU, MemoryBytes: int64(rng.Intn(10)) << 30}}
			}
			if s.Assume(p) == nil {
				held = append(held, p)
			}
		}
	}
	return held
}

func TestChangesAreLogged(t *testing.T) {
	s := snapshot(t, node("a", 1, cluster.RecutNever), node("b", 1, cluster.RecutNever))
	start := s.Now()
	for i := range 3 {
		s.SetHealthy(i%2, 0, false)
	}
	if nodes, all := s.Changed(start); all || fmt.Sprint(nodes) != "[0 1 0]" {
		t.Errorf("changed %v, all %v", nodes, all)
	}
	if nodes, all := s.Changed(s.Now()); all || len(nodes) != 0 {
		t.Errorf("changed since now: %v, all %v", nodes, all)
	}
	for range 2000 {
		s.SetHealthy(1, 0, true)
	}
	if _, all := s.Changed(start); !all {
		t.Error("the log still knows what was 2,000 changes ago")
	}
}

// FuzzMIGGeometry takes and gives back MIG devices at random: none overlap, and
// the compute slices are never more than the GPU has.
func FuzzMIGGeometry(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, uint8(2))
	f.Fuzz(func(t *testing.T, moves []byte, recut uint8) {
		s := snapshot(t, node("a", 1, cluster.Recut(recut%3), "3g.20gb", "1g.5gb", "1g.5gb+me"))
		profiles := s.Profiles(0)
		var held []*cluster.Placement
		for _, m := range moves {
			if m >= 200 && len(held) > 0 {
				k := int(m) % len(held)
				if err := s.Release(held[k]); err != nil {
					t.Fatal(err)
				}
				held = append(held[:k], held[k+1:]...)
				continue
			}
			p := int8(1 + int(m)%len(profiles))
			one := &cluster.Placement{
				Request: cluster.Request{GPUs: 1, Profile: profiles[p-1].Name},
				Devices: []cluster.Device{s.MIGDevice(0, 0, p, int(m)/len(profiles)%8)},
			}
			if s.Assume(one) == nil {
				held = append(held, one)
			}
		}
		used, compute, count := uint(0), 0, map[int8]int{}
		for _, p := range held {
			d := p.Devices[0]
			profile := &profiles[d.Profile-1]
			mask := (uint(1)<<profile.Size - 1) << d.Start
			if used&mask != 0 {
				t.Fatal("a memory slice is held twice")
			}
			used |= mask
			compute += profile.Slices
			if count[d.Profile]++; count[d.Profile] > profile.Max {
				t.Fatalf("%d of %s are held", count[d.Profile], profile.Name)
			}
		}
		if compute > s.ComputeSlices(0) {
			t.Fatalf("%d compute slices are held", compute)
		}
	})
}
