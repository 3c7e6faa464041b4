package view_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/view"
)

// TestPoolsAddUp divides random clusters by a label, and compares the sums.
func TestPoolsAddUp(t *testing.T) {
	for seed := range int64(100) {
		r := rand.New(rand.NewSource(seed))
		nodes, pods := randomCluster(r)
		for _, n := range nodes {
			if n.Labels == nil {
				n.Labels = map[string]string{}
			}
			if pool := r.Intn(3); pool > 0 {
				n.Labels["pool"] = fmt.Sprint(pool)
			}
		}
		v := view.Cluster(nodes, pods)
		v.SetPrices(nodes, cost.NewRules([]cost.Rule{{Name: "first", Match: cost.Match{Labels: map[string]string{"pool": "1"}}, PerGPU: true, Micros: 3, Currency: "EUR"}, {Name: "any", Micros: 7, Currency: "USD"}}), time.Time{})
		var sum devices.Count
		last, count := " none", 0
		for _, p := range view.By(v.Nodes, "pool") {
			if strings.Compare(p.Value, last) <= 0 && last != " none" {
				t.Fatalf("seed %d: pool %q comes after %q", seed, p.Value, last)
			}
			last = p.Value
			for _, n := range p.Nodes {
				if count++; n.Labels["pool"] != p.Value {
					t.Fatalf("seed %d: node %s of pool %q is in pool %q", seed, n.Name, n.Labels["pool"], p.Value)
				}
			}
			c := p.Total
			sum.Physical, sum.Unhealthy, sum.Held, sum.Free = sum.Physical+c.Physical, sum.Unhealthy+c.Unhealthy, sum.Held+c.Held, sum.Free+c.Free
			sum.Broken, sum.Closed, sum.Prices = sum.Broken+c.Broken, sum.Closed+c.Closed, cost.AddAmounts(sum.Prices, c.Prices...)
		}
		if !cmp.Equal(sum, v.Total) || count != len(v.Nodes) {
			t.Fatalf("seed %d: %d nodes with %+v, of %d with %+v", seed, count, sum, len(v.Nodes), v.Total)
		}
	}
}
