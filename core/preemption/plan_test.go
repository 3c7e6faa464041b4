package preemption_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/checkpoint"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/preemption"
)

// saving is a holder with how it saves its work.
func saving(h preemption.Holder, s checkpoint.Saves) preemption.Holder {
	h.Saves = s
	return h
}

// who is a holder of a priority that has run for some hours.
func who(priority int32, hours int) preemption.Holder {
	return preemption.Holder{Priority: priority, Start: now.Add(-time.Duration(hours) * time.Hour)}
}

// with changes a holder.
func with(h preemption.Holder, change func(*preemption.Holder)) preemption.Holder {
	change(&h)
	return h
}

func TestFind(t *testing.T) {
	id := func(node, holder int) preemption.ID { return preemption.ID{Node: node, Holder: holder} }
	for _, tt := range []struct {
		name    string
		cluster func(*testing.T) *preemption.Cluster
		members []cluster.Request
		node    int // where the first member goes
		victims []preemption.ID
		gpus    []int32 // of the first member
	}{
		{
			// A T4 has 15 GiB. On GPU 0 3 are free, and one of 6 gives 9; on GPU 1 two of 5 would have to go.
			name: "a share evicts from the GPU where the fewest must go",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n", "Tesla T4", 2))
				hold(t, c, 0, 0, share(6), who(5, 1))
				hold(t, c, 0, 0, share(6), who(5, 2))
				for range 3 {
					hold(t, c, 0, 1, share(5), who(5, 1))
				}
				return c
			},
			members: []cluster.Request{share(9)}, victims: []preemption.ID{id(0, 0)}, gpus: []int32{0},
		},
		{
			name: "a share leaves the others of its GPU alone",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n", "Tesla T4", 1))
				hold(t, c, 0, 0, share(5), who(5, 1))
				hold(t, c, 0, 0, share(5), who(5, 2))
				hold(t, c, 0, 0, share(4), who(5, 3))
				return c
			},
			members: []cluster.Request{share(6)}, victims: []preemption.ID{id(0, 0)}, gpus: []int32{0},
		},
		{
			// n0 would lose 8 pods, n1 two, of the same priority.
			name: "8 GPUs of one node take the node with the fewest pods",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n0", "Tesla T4", 8), spec(t, "n1", "Tesla T4", 8))
				for j := range 8 {
					hold(t, c, 0, j, whole(1), who(5, 1))
				}
				hold(t, c, 1, -1, whole(4), who(5, 90))
				hold(t, c, 1, -1, whole(4), who(5, 90))
				return c
			},
			members: []cluster.Request{whole(8)}, node: 1, victims: []preemption.ID{id(1, 0), id(1, 1)}, gpus: []int32{0, 1, 2, 3, 4, 5, 6, 7},
		},
		{
			name: "many of low priority go before one of higher",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n0", "Tesla T4", 2), spec(t, "n1", "Tesla T4", 2))
				hold(t, c, 0, -1, whole(2), who(6, 1))
				hold(t, c, 1, 0, whole(1), who(5, 90))
				hold(t, c, 1, 1, whole(1), who(5, 90))
				return c
			},
			members: []cluster.Request{whole(2)}, node: 1, victims: []preemption.ID{id(1, 0), id(1, 1)}, gpus: []int32{0, 1},
		},
		{
			name: "of equals the one goes that has the least to lose",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n", "Tesla T4", 3))
				hold(t, c, 0, 0, whole(1), who(5, 3))
				hold(t, c, 0, 1, whole(1), who(5, 1))
				hold(t, c, 0, 2, whole(1), who(5, 2))
				return c
			},
			members: []cluster.Request{whole(1)}, victims: []preemption.ID{id(0, 1)}, gpus: []int32{1},
		},
		{
			name: "of equals one goes that saves its work, though it loses more",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n", "Tesla T4", 3))
				hold(t, c, 0, 0, whole(1), who(5, 1))
				hold(t, c, 0, 1, whole(1), saving(who(5, 9), checkpoint.Saves{Every: 3 * time.Hour}))
				hold(t, c, 0, 2, whole(1), who(5, 2))
				return c
			},
			members: []cluster.Request{whole(1)}, victims: []preemption.ID{id(0, 1)}, gpus: []int32{1},
		},
		{
			name: "of those that save their work the one goes that saves it when it is asked to stop",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n", "Tesla T4", 3))
				hold(t, c, 0, 0, whole(1), saving(who(5, 9), checkpoint.Saves{Every: time.Minute}))
				hold(t, c, 0, 1, whole(1), saving(who(5, 9), checkpoint.Saves{Last: now.Add(-time.Second)}))
				hold(t, c, 0, 2, whole(1), saving(who(5, 9), checkpoint.Saves{OnSignal: true}))
				return c
			},
			members: []cluster.Request{whole(1)}, victims: []preemption.ID{id(0, 2)}, gpus: []int32{2},
		},
		{
			name: "a member of a gang saves its work for all",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n", "Tesla T4", 4))
				for j := range 4 {
					h := who(5, 3+j/2)
					h.Gang = []string{"a", "b"}[j/2]
					if j == 3 {
						h.Saves.Last = now.Add(-time.Minute)
					}
					hold(t, c, 0, j, whole(1), h)
				}
				return c
			},
			members: []cluster.Request{whole(2)}, victims: []preemption.ID{id(0, 2), id(0, 3)}, gpus: []int32{2, 3},
		},
		{
			name: "two GPUs come from one clique",
			cluster: func(t *testing.T) *preemption.Cluster {
				n := spec(t, "n", "Tesla T4", 4)
				for j := range n.GPUs {
					n.GPUs[j].Clique = 1 + j/2
				}
				c := newCluster(t, n)
				for j, hours := range []int{1, 9, 2, 3} {
					hold(t, c, 0, j, whole(1), who(5, hours))
				}
				return c
			},
			members: []cluster.Request{{GPUs: 2, MilliGPU: cluster.Whole, OneClique: true}}, victims: []preemption.ID{id(0, 2), id(0, 3)}, gpus: []int32{2, 3},
		},
		{
			// 3g.20gb starts at slices 0 and 4 of 8; on either a 1g must go: the one of lower priority.
			name: "a MIG device takes the start that costs least",
			cluster: func(t *testing.T) *preemption.Cluster {
				n := spec(t, "n", "NVIDIA A100-SXM4-40GB", 1)
				n.Recut, n.GPUs[0].MIGEnabled = cluster.RecutFree, true
				c := newCluster(t, n)
				for i, start := range []int8{0, 4} {
					p := c.Snapshot.ProfileNumber(0, "1g.5gb")
					h := who(int32(5-i), 1)
					h.Placement = cluster.Placement{Request: mig(1, "1g.5gb"), Devices: []cluster.Device{c.Snapshot.MIGDevice(0, 0, p, int(start))}}
					if err := c.Snapshot.Assume(&h.Placement); err != nil {
						t.Fatal(err)
					}
					c.Holders[0] = append(c.Holders[0], h)
				}
				return c
			},
			members: []cluster.Request{mig(1, "3g.20gb")}, victims: []preemption.ID{id(0, 1)}, gpus: []int32{0},
		},
		{
			name: "CPU is room too, and those without GPUs make it",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n", "Tesla T4", 2))
				hold(t, c, 0, 0, whole(1), who(3, 1))
				hold(t, c, 0, -1, cluster.Request{CPUMilli: 60000}, who(4, 1))
				return c
			},
			members: []cluster.Request{{CPUMilli: 16000, GPUs: 1, MilliGPU: cluster.Whole}}, victims: []preemption.ID{id(0, 1)}, gpus: []int32{1},
		},
		{
			name: "who leaves anyhow costs nothing",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n", "Tesla T4", 2))
				hold(t, c, 0, 0, whole(1), who(1, 1))
				hold(t, c, 0, 1, whole(1), with(who(90, 1), func(h *preemption.Holder) { h.Leaving = true }))
				return c
			},
			members: []cluster.Request{whole(1)}, gpus: []int32{1},
		},
		{
			name: "a promise of lower priority is broken before anybody is evicted",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n", "Tesla T4", 2))
				hold(t, c, 0, 0, whole(1), who(1, 1))
				c.Holders[0] = append(c.Holders[0], preemption.Holder{
					Priority: 9, Promise: true,
					Placement: cluster.Placement{Request: whole(1), Devices: []cluster.Device{{GPU: 1, MilliGPU: 1000, MemoryBytes: c.Snapshot.Cards(0)[1].MemoryBytes}}},
				})
				return c
			},
			members: []cluster.Request{whole(1)}, gpus: []int32{1},
		},
		{
			// The gang of three on n0 and n1 needs them all, and counts three.
			name: "a gang that would be too small goes as a whole, so that another goes first",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n0", "Tesla T4", 2), spec(t, "n1", "Tesla T4", 2))
				member := with(who(5, 1), func(h *preemption.Holder) { h.Gang = "g" })
				hold(t, c, 0, 0, whole(1), member)
				hold(t, c, 0, 1, whole(1), member)
				hold(t, c, 1, 0, whole(1), member)
				hold(t, c, 1, 1, whole(1), who(5, 90))
				return c
			},
			members: []cluster.Request{whole(1)}, node: 1, victims: []preemption.ID{id(1, 1)}, gpus: []int32{1},
		},
		{
			name: "all of a gang go, wherever they are",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n0", "Tesla T4", 1), spec(t, "n1", "Tesla T4", 1))
				member := with(who(5, 1), func(h *preemption.Holder) { h.Gang = "g" })
				hold(t, c, 0, 0, whole(1), member)
				hold(t, c, 1, 0, whole(1), member)
				return c
			},
			members: []cluster.Request{whole(1)}, victims: []preemption.ID{id(0, 0), id(1, 0)}, gpus: []int32{0},
		},
		{
			name: "a gang above its least number loses one only",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n0", "Tesla T4", 2))
				c.MinCount["g"] = 1
				hold(t, c, 0, 0, whole(1), with(who(5, 2), func(h *preemption.Holder) { h.Gang = "g" }))
				hold(t, c, 0, 1, whole(1), with(who(5, 1), func(h *preemption.Holder) { h.Gang = "g" }))
				return c
			},
			members: []cluster.Request{whole(1)}, victims: []preemption.ID{id(0, 1)}, gpus: []int32{1},
		},
		{
			name: "a gang above its least number keeps its leader, although another has run longer",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n0", "Tesla T4", 2))
				c.MinCount["g"] = 1
				hold(t, c, 0, 0, whole(1), with(who(5, 2), func(h *preemption.Holder) { h.Gang = "g" }))
				hold(t, c, 0, 1, whole(1), with(who(5, 1), func(h *preemption.Holder) { h.Gang, h.Leads = "g", true }))
				return c
			},
			members: []cluster.Request{whole(1)}, victims: []preemption.ID{id(0, 0)}, gpus: []int32{0},
		},
		{
			name: "a gang whose leader has to go goes as a whole, wherever the others are",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n0", "Tesla T4", 1), spec(t, "n1", "Tesla T4", 2))
				c.MinCount["g"] = 1
				member := with(who(5, 1), func(h *preemption.Holder) { h.Gang = "g" })
				hold(t, c, 0, 0, whole(1), member)
				hold(t, c, 1, 0, whole(1), member)
				hold(t, c, 1, 1, whole(1), with(member, func(h *preemption.Holder) { h.Leads = true }))
				return c
			},
			members: []cluster.Request{whole(2)}, node: 1, victims: []preemption.ID{id(0, 0), id(1, 0), id(1, 1)}, gpus: []int32{0, 1},
		},
		{
			// One of the two under the budget may go, so that the dearer third goes for the second GPU.
			name: "a budget is kept, and the dearer goes",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n", "Tesla T4", 3))
				c.Budgets = []int{1}
				kept := func(h *preemption.Holder) { h.Budgets = []int{0} }
				hold(t, c, 0, 0, whole(1), with(who(1, 1), kept))
				hold(t, c, 0, 1, whole(1), with(who(1, 2), kept))
				hold(t, c, 0, 2, whole(1), who(8, 1))
				return c
			},
			members: []cluster.Request{whole(2)}, victims: []preemption.ID{id(0, 0), id(0, 2)}, gpus: []int32{0, 2},
		},
		{
			name: "a gang takes what is free first, and evicts for the rest",
			cluster: func(t *testing.T) *preemption.Cluster {
				c := newCluster(t, spec(t, "n0", "Tesla T4", 2), spec(t, "n1", "Tesla T4", 2))
				hold(t, c, 0, 0, whole(1), who(5, 1))
				hold(t, c, 0, 1, whole(1), who(4, 1))
				hold(t, c, 1, 0, whole(1), who(5, 1))
				return c
			},
			members: []cluster.Request{whole(1), whole(1)}, node: 1, victims: []preemption.ID{id(0, 1)}, gpus: []int32{1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.cluster(t)
			p := &preemption.Preemptor{Members: tt.members, Priority: 10}
			plan, why, ok := preemption.Find(c, p, now)
			if !ok {
				t.Fatalf("Find: %+v, want a plan", why)
			}
			stands(t, c, p, &plan)
			var gpus []int32
			for _, d := range plan.Placements[0].Devices {
				gpus = append(gpus, d.GPU)
			}
			if diff := cmp.Diff(tt.victims, plan.Victims); diff != "" {
				t.Errorf("victims: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(tt.gpus, gpus); diff != "" || plan.Placements[0].Node != tt.node {
				t.Errorf("node %d, want %d; GPUs: -want +got\n%s", plan.Placements[0].Node, tt.node, diff)
			}
		})
	}
}

func TestFindRefuses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		holders []preemption.Holder // of one GPU each, on as many T4 of one node
		budgets []int
		request cluster.Request
		want    preemption.Refusal
	}{
		{"equals are not evicted", []preemption.Holder{who(10, 1)}, nil, whole(1), preemption.Refusal{Nodes: 1, NoVictims: 1, ShortMilli: 1000}},
		{"the fixed are not", []preemption.Holder{{Fixed: true}}, nil, whole(1), preemption.Refusal{Nodes: 1, NoVictims: 1, ShortMilli: 1000}},
		{"an empty node would be too small", []preemption.Holder{who(1, 1)}, nil, whole(2), preemption.Refusal{Nodes: 1, TooSmall: 1, ShortMilli: 1000}},
		{"one who must stay is in the way", []preemption.Holder{who(1, 1), who(11, 1)}, nil, whole(2), preemption.Refusal{Nodes: 1, TooSmall: 1, ShortMilli: 1000}},
		{"a budget with nothing left protects", []preemption.Holder{{Budgets: []int{0}}}, []int{0}, whole(1), preemption.Refusal{Nodes: 1, Protected: 1}},
		{"a budget of one protects the second", []preemption.Holder{{Budgets: []int{0}}, {Budgets: []int{0}}}, []int{1}, whole(2), preemption.Refusal{Nodes: 1, Protected: 1}},
		{"a gang with one who must stay stays", []preemption.Holder{{Gang: "g"}, {Gang: "g", Priority: 11}}, nil, whole(1), preemption.Refusal{Nodes: 1, Protected: 1}},
		{"the product is another", []preemption.Holder{who(1, 1)}, nil, cluster.Request{GPUs: 1, MilliGPU: 1000, Products: cluster.NoProduct}, preemption.Refusal{Nodes: 1, TooSmall: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, spec(t, "n", "Tesla T4", len(tt.holders)))
			c.Budgets = tt.budgets
			for j, h := range tt.holders {
				hold(t, c, 0, j, whole(1), h)
			}
			plan, why, ok := preemption.Find(c, &preemption.Preemptor{Members: []cluster.Request{tt.request}, Priority: 10}, now)
			if diff := cmp.Diff(tt.want, why); ok || diff != "" {
				t.Errorf("Find: %+v; -want +got\n%s", plan, diff)
			}
		})
	}
}

func TestAnUnhealthyGPUIsNotCleared(t *testing.T) {
	n := spec(t, "n", "Tesla T4", 2)
	c := newCluster(t, n)
	hold(t, c, 0, 0, whole(1), who(1, 1))
	hold(t, c, 0, 1, whole(1), who(5, 1))
	c.Snapshot.SetHealthy(0, 0, false)
	plan, _, ok := preemption.Find(c, &preemption.Preemptor{Members: []cluster.Request{whole(1)}, Priority: 10}, now)
	if want := []preemption.ID{{Node: 0, Holder: 1}}; !ok || !cmp.Equal(want, plan.Victims) {
		t.Errorf("victims %v, want %v", plan.Victims, want)
	}
}

// TestNobodyGoesForSharesWhereGPUsCanBeHad has the cheaper victim on quarters of GPUs,
// which do not add up to the two GPUs that are asked for.
func TestNobodyGoesForSharesWhereGPUsCanBeHad(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   bool
		node int
	}{
		{"GPUs, though their holder is dearer", false, 1},
		{"shares, where they do", true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shared := spec(t, "shared", "Tesla T4", 1)
			shared.Shares = 2
			c := newCluster(t, shared, spec(t, "whole", "Tesla T4", 2))
			hold(t, c, 0, 0, whole(1), preemption.Holder{Priority: 1})
			hold(t, c, 1, -1, whole(2), preemption.Holder{Priority: 5})
			r := cluster.Request{GPUs: 2, MilliGPU: cluster.Whole, Units: true, SharesDo: tt.do}
			plan, why, ok := preemption.Find(c, &preemption.Preemptor{Members: []cluster.Request{r}, Priority: 10}, now)
			if !ok || plan.Placements[0].Node != tt.node {
				t.Errorf("plan %+v (%+v), want node %d", plan, why, tt.node)
			}
		})
	}
}
