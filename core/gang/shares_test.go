package gang_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
)

// TestMembersWithSeveralGPUsGetSharesLast has a node whose quarters would hold the
// whole gang, and so be nearer, and two nodes with GPUs.
func TestMembersWithSeveralGPUsGetSharesLast(t *testing.T) {
	for _, tt := range []struct {
		name string
		gpus int32
		do   bool
		want []string
	}{
		{"members of two GPUs get GPUs of two nodes", 2, false, []string{"b", "c"}},
		{"members of two, for whom shares do, stay together", 2, true, []string{"a", "a"}},
		{"members of three fit only the shares", 3, false, []string{"a", "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			specs := []cluster.Spec{
				{Name: "a", GPUs: gpu.New("a", mustFind(t, "Tesla T4"), 4), Shares: 4},
				{Name: "b", GPUs: gpu.New("b", mustFind(t, "Tesla T4"), 2)},
				{Name: "c", GPUs: gpu.New("c", mustFind(t, "Tesla T4"), 2)},
			}
			s, err := cluster.New(specs)
			if err != nil {
				t.Fatal(err)
			}
			policy := placement.NewBerth(placement.Setup{Cluster: s}, placement.DefaultParams())
			p := &gang.Planner{Placer: placement.NewIndex(s, policy, nil, nil), Topology: gang.NewTopology(make([]gang.Place, len(specs)))}
			r := cluster.Request{GPUs: tt.gpus, MilliGPU: cluster.Whole, Units: true, SharesDo: tt.do}
			plan, no, err := p.Plan(&gang.Gang{Name: "g", Members: []gang.Member{{Request: r}, {Request: r}}, Within: gang.Cluster})
			if plan == nil || err != nil {
				t.Fatal(no, err)
			}
			if diff := cmp.Diff(tt.want, nodesOf(p, plan)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func mustFind(t *testing.T, product string) gpu.Product {
	t.Helper()
	p, ok := gpu.Find(product)
	if !ok {
		t.Fatalf("no product %s", product)
	}
	return p
}
