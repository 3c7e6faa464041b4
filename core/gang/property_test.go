package gang_test

import (
	"math/rand"
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
)

// randomPlanner has a few small nodes of two products, in racks of two zones.
func randomPlanner(t *testing.T, rng *rand.Rand, nodes int) *gang.Planner {
	t.Helper()
	var specs []cluster.Spec
	var places []gang.Place
	for i := range nodes {
		spec := cluster.Spec{Name: string(rune('a' + i)), CPUMilli: 8000, MemoryBytes: 32 << 30}
		product := []string{"Tesla T4", "NVIDIA A100-SXM4-40GB"}[rng.Intn(2)]
		p, _ := gpu.Find(product)
		for j := range rng.Intn(5) {
			spec.GPUs = append(spec.GPUs, gpu.GPU{Index: j, Product: product, MemoryBytes: p.MemoryMiB << 20, Healthy: rng.Intn(10) > 0, Clique: 1 + j/2})
		}
		specs = append(specs, spec)
		places = append(places, gang.Place{Rack: []string{"", "r1", "r2"}[rng.Intn(3)], Zone: []string{"z1", "z2"}[rng.Intn(2)]})
	}
	s, err := cluster.New(specs)
	if err != nil {
		t.Fatal(err)
	}
	policy := placement.NewBerth(placement.Setup{Cluster: s}, placement.DefaultParams())
	return &gang.Planner{Placer: placement.NewIndex(s, policy, nil, nil), Topology: gang.NewTopology(places)}
}

func randomGang(s *cluster.Snapshot, rng *rand.Rand, most int) *gang.Gang {
	g := &gang.Gang{Name: "g", Within: gang.Cluster}
	for range 1 + rng.Intn(most) {
		r := cluster.Request{CPUMilli: int64(rng.Intn(4)) * 1000}
		switch rng.Intn(6) {
		case 0:
		case 1:
			r.GPUs, r.MilliGPU = 1, int32(1+rng.Intn(9))*100
		case 2:
			r.GPUs, r.GPUMemoryBytes = 1, int64(1+rng.Intn(12))<<30
		default:
			r.GPUs, r.MilliGPU = int32(1+rng.Intn(3)), cluster.Whole
		}
		if rng.Intn(4) == 0 {
			r.Products, _ = s.Products(s.ProductNames()[0])
		}
		g.Members = append(g.Members, gang.Member{Request: r})
	}
	if rng.Intn(2) == 0 {
		g.MinCount = 1 + rng.Intn(len(g.Members))
	}
	return g
}

func TestAGangIsPlacedWholeOrNothingChanges(t *testing.T) {
	placed, refused := 0, 0
	for seed := range int64(400) {
		rng := rand.New(rand.NewSource(seed))
		p := randomPlanner(t, rng, 8)
		if p.Placer.Snapshot().TotalGPUs() == 0 {
			continue
		}
		var before *cluster.Snapshot
		for range 8 {
			g := randomGang(p.Placer.Snapshot(), rng, 6)
			g.Within = []gang.Level{gang.Node, gang.Rack, gang.Zone, gang.Cluster}[rng.Intn(4)]
			before = p.Placer.Snapshot().Clone()
			plan, refusal, err := p.Plan(g)
			if err != nil {
				t.Fatal(err)
			}
			if plan == nil {
				refused++
				if !p.Placer.Snapshot().Equal(before) {
					t.Fatalf("seed %d: refused, and the snapshot has changed", seed)
				}
				if refusal == nil || refusal.Need == 0 {
					t.Fatalf("seed %d: refused without a reason: %+v", seed, refusal)
				}
				continue
			}
			placed++
			check(t, seed, p, g, plan, before)
		}
	}
	if placed < 100 || refused < 100 {
		t.Errorf("%d placed, %d refused: too few of one to show anything", placed, refused)
	}
}

// check holds a plan to what it says of itself: replayed on the snapshot before,
// it gives the snapshot now, and its members are in one domain.
func check(t *testing.T, seed int64, p *gang.Planner, g *gang.Gang, plan *gang.Plan, before *cluster.Snapshot) {
	t.Helper()
	count := 0
	var nodes []int
	for i := range plan.Placed {
		one := &plan.Placed[i]
		if one.Node < 0 {
			continue
		}
		count++
		if err := before.Assume(one); err != nil {
			t.Fatalf("seed %d: member %d: %v", seed, i, err)
		}
		if one.Request.GPUs > 0 {
			nodes = append(nodes, one.Node)
		}
	}
	need := g.MinCount
	if need == 0 {
		need = len(g.Members)
	}
	if count < need || count != plan.Count {
		t.Fatalf("seed %d: %d of %d members placed, the plan says %d", seed, count, need, plan.Count)
	}
	if !before.Equal(p.Placer.Snapshot()) {
		t.Fatalf("seed %d: what was assumed is not what the plan says", seed)
	}
	if plan.Level > g.Within || !holds(p, plan.Level, nodes) {
		t.Fatalf("seed %d: nodes %v are not of one %v, or that is beyond %v", seed, nodes, plan.Level, g.Within)
	}
}

// holds says whether nodes are of one domain of a level.
func holds(p *gang.Planner, l gang.Level, nodes []int) bool {
	for _, n := range nodes {
		if !p.Topology.Share(l, n, nodes[0]) {
			return false
		}
	}
	return true
}

// TestNoNearerDomainHoldsTheGang looks for a nearer domain in the slow and
// obvious way: for whole gangs of equal members, a domain holds them if the sum
// of what each node has room for is enough.
func TestNoNearerDomainHoldsTheGang(t *testing.T) {
	for seed := range int64(300) {
		rng := rand.New(rand.NewSource(seed))
		p := randomPlanner(t, rng, 7)
		if p.Placer.Snapshot().TotalGPUs() == 0 {
			continue
		}
		g := randomGang(p.Placer.Snapshot(), rng, 1)
		if g.MinCount = 0; g.Members[0].Request.GPUs == 0 {
			continue
		}
		for range rng.Intn(6) {
			g.Members = append(g.Members, g.Members[0])
		}
		want := nearest(t, p, g)
		plan, _, err := p.Plan(g)
		switch {
		case err != nil:
			t.Fatal(err)
		case plan == nil && want <= gang.Cluster, plan != nil && max(plan.Level, gang.Node) != want:
			t.Fatalf("seed %d: %d of %+v: plan %+v, but the nearest level is %v", seed, len(g.Members), g.Members[0].Request, plan, want)
		}
	}
}

// nearest is the nearest level, from Node up, with a domain that holds g; beyond
// Cluster where none does.
func nearest(t *testing.T, p *gang.Planner, g *gang.Gang) gang.Level {
	t.Helper()
	s := p.Placer.Snapshot()
	room := make([]int, s.Len())
	for i := range room {
		m := s.Mark()
		for room[i] < len(g.Members) && placement.Fit(s, i, &g.Members[0].Request) == placement.Fits {
			r := g.Members[0].Request
			if err := s.Assume(&cluster.Placement{Node: i, Request: r, Devices: p.Placer.Policy().Devices(s, i, &r, nil)}); err != nil {
				t.Fatal(err)
			}
			room[i]++
		}
		s.RollBack(m)
	}
	for l := gang.Node; l <= gang.Cluster; l++ {
		for i := range room {
			sum := 0
			for j := range room {
				if p.Topology.Share(l, i, j) {
					sum += room[j]
				}
			}
			if sum >= len(g.Members) {
				return l
			}
		}
	}
	return gang.Cluster + 1
}

// TestOfTwoGangsThatEachFitAloneOneIsPlaced: two gangs that do not fit together
// are never both placed in part.
func TestOfTwoGangsThatEachFitAloneOneIsPlaced(t *testing.T) {
	p := planner(t, place{name: "a", gpus: 8}, place{name: "b", gpus: 8}, place{name: "c", gpus: 8})
	one := &gang.Gang{Name: "one", Within: gang.Cluster, Members: members(13, 1)}
	two := &gang.Gang{Name: "two", Within: gang.Cluster, Members: members(7, 2)}
	first, _, err := p.Plan(one)
	if err != nil || first == nil || first.Count != 13 {
		t.Fatal(first, err)
	}
	before := p.Placer.Snapshot().Clone()
	if second, refusal, err := p.Plan(two); second != nil || err != nil || refusal.Fit >= 7 || !p.Placer.Snapshot().Equal(before) {
		t.Fatal(second, refusal, err)
	}
	for i := range first.Placed {
		if err := p.Placer.Snapshot().Release(&first.Placed[i]); err != nil {
			t.Fatal(err)
		}
	}
	if second, _, err := p.Plan(two); err != nil || second == nil {
		t.Fatal("the second gang does not fit where the first has left", err)
	}
}

func TestEqualGangsGetEqualPlans(t *testing.T) {
	for seed := range int64(50) {
		var got [2][]string
		for k := range got {
			rng := rand.New(rand.NewSource(seed))
			p := randomPlanner(t, rng, 8)
			if p.Placer.Snapshot().TotalGPUs() == 0 {
				continue
			}
			for range 4 {
				if plan, _, _ := p.Plan(randomGang(p.Placer.Snapshot(), rng, 5)); plan != nil {
					got[k] = append(got[k], nodesOf(p, plan)...)
				}
			}
		}
		for i := range got[0] {
			if got[0][i] != got[1][i] {
				t.Fatalf("seed %d: %v, then %v", seed, got[0], got[1])
			}
		}
	}
}
