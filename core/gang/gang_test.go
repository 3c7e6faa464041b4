package gang_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
)

// place is a node: its name, how many A100 it has, and where it is.
type place struct {
	name string
	gpus int
	at   gang.Place
}

// planner is a Planner of nodes with 32 CPU each and cliques of four GPUs.
func planner(tb testing.TB, nodes ...place) *gang.Planner {
	tb.Helper()
	var specs []cluster.Spec
	var places []gang.Place
	p, _ := gpu.Find("NVIDIA A100-SXM4-40GB")
	for _, n := range nodes {
		spec := cluster.Spec{Name: n.name, CPUMilli: 32000, MemoryBytes: 64 << 30}
		for j := range n.gpus {
			spec.GPUs = append(spec.GPUs, gpu.GPU{Index: j, Product: p.Name, MemoryBytes: p.MemoryMiB << 20, Healthy: true, Clique: 1 + j/4})
		}
		specs, places = append(specs, spec), append(places, n.at)
	}
	s, err := cluster.New(specs)
	if err != nil {
		tb.Fatal(err)
	}
	policy := placement.NewBerth(placement.Setup{Cluster: s}, placement.DefaultParams())
	return &gang.Planner{Placer: placement.NewIndex(s, policy, nil, nil), Topology: gang.NewTopology(places)}
}

// hold takes n whole GPUs of a node.
func hold(t *testing.T, p *gang.Planner, node string, n int) {
	t.Helper()
	i, _ := p.Placer.Snapshot().Find(node)
	r := cluster.Request{GPUs: int32(n), MilliGPU: cluster.Whole}
	placed := cluster.Placement{Node: i, Request: r, Devices: p.Placer.Policy().Devices(p.Placer.Snapshot(), i, &r, nil)}
	if err := p.Placer.Snapshot().Assume(&placed); err != nil {
		t.Fatal(err)
	}
}

// members is n members with whole GPUs each; with 0 they ask for CPU alone.
func members(n, gpus int) []gang.Member {
	r := cluster.Request{CPUMilli: 1000}
	if gpus > 0 {
		r.GPUs, r.MilliGPU = int32(gpus), cluster.Whole
	}
	out := make([]gang.Member, n)
	for i := range out {
		out[i].Request = r
	}
	return out
}

// apart keeps members on different nodes.
func apart(list []gang.Member) []gang.Member {
	for i := range list {
		list[i].Apart = "workers"
	}
	return list
}

// nodesOf names the node of each member; "-" is left out.
func nodesOf(p *gang.Planner, plan *gang.Plan) []string {
	var out []string
	for i := range plan.Placed {
		name := "-"
		if n := plan.Placed[i].Node; n >= 0 {
			name = p.Placer.Snapshot().Node(n).Name
		}
		out = append(out, name)
	}
	return out
}

func TestPlanTakesTheNearestDomainThatHoldsTheGang(t *testing.T) {
	racks := func() []place {
		var out []place
		for i := range 8 {
			out = append(out, place{fmt.Sprint("n", i), 8, gang.Place{Rack: fmt.Sprint("r", i/2), Zone: fmt.Sprint("z", i/4)}})
		}
		return out
	}
	fabrics := racks()
	fabrics[1].at.Fabric, fabrics[5].at.Fabric = "f", "f"
	for _, tt := range []struct {
		name  string
		nodes []place
		held  map[string]int
		gang  gang.Gang
		level gang.Level
		want  []string // nil: refused
	}{
		{name: "four GPUs in one clique", nodes: racks(), gang: gang.Gang{Members: members(4, 1)}, level: gang.Clique, want: []string{"n0", "n0", "n0", "n0"}},
		{name: "six GPUs on one node", nodes: racks(), gang: gang.Gang{Members: members(3, 2)}, level: gang.Node, want: []string{"n0", "n0", "n0"}},
		{
			name: "a node that is begun and holds the gang is taken before one that is idle", nodes: racks(), held: map[string]int{"n3": 4},
			gang: gang.Gang{Members: members(4, 1)}, level: gang.Clique, want: []string{"n3", "n3", "n3", "n3"},
		},
		{name: "two whole nodes of one rack", nodes: racks(), held: map[string]int{"n0": 1}, gang: gang.Gang{Members: members(2, 8)}, level: gang.Rack, want: []string{"n2", "n3"}},
		{
			name: "three whole nodes of one zone", nodes: racks(), held: map[string]int{"n0": 1, "n1": 1},
			gang: gang.Gang{Members: members(3, 8)}, level: gang.Zone, want: []string{"n4", "n5", "n6"},
		},
		{
			name: "whole nodes of both zones where none holds the gang", nodes: racks(), held: map[string]int{"n0": 1, "n1": 1, "n4": 1, "n5": 1},
			gang: gang.Gang{Within: gang.Cluster, Members: members(4, 8)}, level: gang.Cluster, want: []string{"n2", "n3", "n6", "n7"},
		},
		{
			name: "not across zones where one zone is asked for", nodes: racks(), held: map[string]int{"n0": 1, "n1": 1, "n4": 1, "n5": 1},
			gang: gang.Gang{Within: gang.Zone, Members: members(4, 8)},
		},
		{name: "an NVLink fabric before a rack", nodes: fabrics, gang: gang.Gang{Members: members(2, 8)}, level: gang.Fabric, want: []string{"n1", "n5"}},
		{name: "more than there is", nodes: racks(), gang: gang.Gang{Within: gang.Cluster, Members: members(9, 8)}},
		{
			name: "members beyond the least count are left out where they do not fit", nodes: racks()[:2], held: map[string]int{"n0": 3},
			gang: gang.Gang{Within: gang.Cluster, MinCount: 2, Members: members(4, 4)}, level: gang.Node, want: []string{"n1", "n1", "-", "-"},
		},
		{
			name: "all members in a farther domain before some in a nearer one", nodes: racks()[:2],
			gang: gang.Gang{Within: gang.Cluster, MinCount: 2, Members: members(3, 4)}, level: gang.Cluster, want: []string{"n0", "n0", "n1"},
		},
		{
			name: "a launcher without GPUs goes with the gang", nodes: racks(),
			gang: gang.Gang{Members: append(members(1, 0), members(1, 8)...)}, level: gang.Node, want: []string{"n0", "n0"},
		},
		{
			name: "a launcher that has no room there goes elsewhere", nodes: racks(),
			gang:  gang.Gang{Members: append([]gang.Member{{Request: cluster.Request{CPUMilli: 31500}}}, members(1, 8)...)},
			level: gang.Node, want: []string{"n1", "n0"},
		},
		{
			name: "the rest of a gang joins those that are placed", nodes: racks(), held: map[string]int{"n5": 8},
			gang: gang.Gang{Near: []int{5}, Within: gang.Cluster, Members: members(1, 8)}, level: gang.Rack, want: []string{"n4"},
		},
		{
			name: "a node that refused a member is not asked again", nodes: racks(),
			gang:  gang.Gang{Within: gang.Cluster, Members: []gang.Member{{Request: members(1, 8)[0].Request, Avoid: []int{0}}, members(1, 8)[0]}},
			level: gang.Rack, want: []string{"n1", "n0"},
		},
		{
			name: "members that must be apart are on different nodes of one rack", nodes: racks(), held: map[string]int{"n3": 7},
			gang: gang.Gang{Within: gang.Cluster, Members: apart(members(2, 1))}, level: gang.Rack, want: []string{"n3", "n2"},
		},
		{name: "more members that must be apart than nodes", nodes: racks(), gang: gang.Gang{Within: gang.Cluster, Members: apart(members(9, 1))}},
		{name: "nobody is no gang", nodes: racks()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := planner(t, tt.nodes...)
			for node, n := range tt.held {
				hold(t, p, node, n)
			}
			if tt.gang.Within == 0 {
				tt.gang.Within = gang.Cluster
			}
			plan, refusal, err := p.Plan(&tt.gang)
			switch {
			case err != nil:
				t.Fatal(err)
			case len(tt.gang.Members) == 0:
				if plan == nil || plan.Count != 0 {
					t.Errorf("got %+v, %+v", plan, refusal)
				}
				return
			case plan == nil:
				if tt.want != nil {
					t.Errorf("refused: %+v", refusal)
				}
				return
			}
			if diff := cmp.Diff(tt.want, nodesOf(p, plan)); diff != "" || plan.Level != tt.level {
				t.Errorf("level %v, want %v; -want +got\n%s", plan.Level, tt.level, diff)
			}
		})
	}
}

func TestOneCliqueIsOneClique(t *testing.T) {
	p := planner(t, place{name: "n", gpus: 8})
	hold(t, p, "n", 1)
	plan, _, err := p.Plan(&gang.Gang{Within: gang.Cluster, Members: members(2, 2)})
	if err != nil || plan == nil || plan.Level != gang.Clique {
		t.Fatal(plan, err)
	}
	cliques := map[int]bool{}
	for _, placed := range plan.Placed {
		for _, d := range placed.Devices {
			cliques[p.Placer.Snapshot().Cards(placed.Node)[d.GPU].Clique] = true
		}
	}
	if len(cliques) != 1 {
		t.Errorf("devices of %d cliques: %+v", len(cliques), plan.Placed)
	}
}

func TestARefusalSaysHowFarItWent(t *testing.T) {
	nodes := []place{{"n0", 8, gang.Place{Rack: "a"}}, {"n1", 8, gang.Place{Rack: "b"}}, {"n2", 0, gang.Place{}}}
	lacks := []placement.Count{{Reason: placement.WrongProduct, Nodes: 1}, {Reason: placement.NotEnoughGPUs, Nodes: 2}}
	for _, tt := range []struct {
		name string
		gang gang.Gang
		want gang.Refusal
	}{
		{
			"where most fitted, and what the next lacked",
			gang.Gang{Within: gang.Cluster, Members: members(5, 4)},
			gang.Refusal{Need: 5, Fit: 4, Member: 4, Nodes: lacks, ShortMilli: 4000},
		},
		{
			"where counting is enough to refuse it",
			gang.Gang{Within: gang.Cluster, Members: members(3, 8)},
			gang.Refusal{Need: 3, Fit: 2, Member: 2, Nodes: lacks, ShortMilli: 8000},
		},
		{
			"where they fit, but not within a rack",
			gang.Gang{Within: gang.Rack, Members: members(4, 4)},
			gang.Refusal{Need: 4, Member: -1, Apart: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan, refusal, err := planner(t, nodes...).Plan(&tt.gang)
			if plan != nil || err != nil {
				t.Fatal(plan, err)
			}
			if diff := cmp.Diff(&tt.want, refusal); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestLevelsHaveNames(t *testing.T) {
	for l := gang.Clique; l <= gang.Cluster; l++ {
		if got, err := gang.ParseLevel(l.String()); got != l || err != nil {
			t.Errorf("%v: %v, %v", l, got, err)
		}
	}
	if _, err := gang.ParseLevel("row"); err == nil {
		t.Error("row is a level")
	}
}

// BenchmarkPlan plans 512 members of one GPU on 500 nodes of 8.
func BenchmarkPlan(b *testing.B) {
	var nodes []place
	for i := range 500 {
		nodes = append(nodes, place{fmt.Sprint("n", i), 8, gang.Place{Rack: fmt.Sprint(i / 16), Zone: fmt.Sprint(i / 128)}})
	}
	for _, tt := range []struct {
		name    string
		members int
	}{{"fits", 512}, {"impossible", 4096}} {
		b.Run(tt.name, func(b *testing.B) {
			p := planner(b, nodes...)
			hold := rand.New(rand.NewSource(1))
			for range 300 {
				r := cluster.Request{GPUs: 1, MilliGPU: int32(100 + hold.Intn(900))}
				i, ok := placement.NewScan(p.Placer.Snapshot(), p.Placer.Policy(), nil, nil).Best(&r)
				if !ok {
					b.Fatal("full")
				}
				if err := p.Placer.Snapshot().Assume(&cluster.Placement{Node: i, Request: r, Devices: p.Placer.Policy().Devices(p.Placer.Snapshot(), i, &r, nil)}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				m := p.Placer.Snapshot().Mark()
				plan, _, err := p.Plan(&gang.Gang{Within: gang.Cluster, Members: members(tt.members, 1)})
				if err != nil || (plan != nil) != (tt.members == 512) {
					b.Fatal(plan, err)
				}
				p.Placer.Snapshot().RollBack(m)
			}
		})
	}
}
