package quota_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/quota"
)

func TestStandings(t *testing.T) {
	lends := func(nominal, lending int64) quota.Quota {
		return quota.Quota{Resource: quota.GPUs, Nominal: nominal * whole, Borrowing: quota.Unlimited, Lending: lending * whole}
	}
	org := []quota.Spec{
		{Name: "org", Quotas: []quota.Quota{gpus(16)}},
		{Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(4)}},
		{Name: "blue", Parent: "org", Quotas: []quota.Quota{gpus(4)}},
		{Name: "green", Parent: "org", Quotas: []quota.Quota{lends(8, 2)}},
	}
	type row struct{ nominal, used, borrowed, lent int64 }
	for name, c := range map[string]struct {
		specs []quota.Spec
		holds map[string]int64
		want  map[string]row
	}{
		"nothing is held": {org, nil, map[string]row{"org": {16, 0, 0, 0}, "red": {4, 0, 0, 0}, "blue": {4, 0, 0, 0}, "green": {8, 0, 0, 0}}},
		"what one borrows the others lend in proportion to what they leave, up to their limits": {
			org,
			map[string]int64{"red": 7},
			map[string]row{"org": {16, 7, 0, 0}, "red": {4, 7, 3, 0}, "blue": {4, 0, 0, 2}, "green": {8, 0, 0, 1}},
		},
		"who uses what it has lends nothing": {
			org,
			map[string]int64{"red": 6, "blue": 4},
			map[string]row{"org": {16, 10, 0, 0}, "red": {4, 6, 2, 0}, "blue": {4, 4, 0, 0}, "green": {8, 0, 0, 2}},
		},
		"a queue between lends what those below it leave": {
			[]quota.Spec{
				{Name: "org", Quotas: []quota.Quota{gpus(8)}},
				{Name: "lab", Parent: "org", Quotas: []quota.Quota{gpus(4)}},
				{Name: "red", Parent: "lab", Quotas: []quota.Quota{gpus(2)}},
				{Name: "blue", Parent: "org", Quotas: []quota.Quota{gpus(4)}},
			},
			map[string]int64{"blue": 8},
			map[string]row{"org": {8, 8, 0, 0}, "lab": {4, 0, 0, 4}, "red": {2, 0, 0, 2}, "blue": {4, 8, 4, 0}},
		},
		"a root that has less than it holds borrows nothing": {
			[]quota.Spec{{Name: "org", Quotas: []quota.Quota{gpus(4)}}}, map[string]int64{"org": 6}, map[string]row{"org": {4, 6, 0, 0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := quota.NewBook(quota.NewTree(c.specs))
			for queue, n := range c.holds {
				holds(b, ask("w-"+queue, queue, "", n), "")
			}
			got := map[string]row{}
			for queue, list := range b.Standings() {
				s := list[0]
				got[queue] = row{s.Nominal / whole, s.Used / whole, s.Borrowed / whole, s.Lent / whole}
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(row{})); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestWhatIsLentIsWhatIsBorrowed holds Standings to its sums, in random trees.
func TestWhatIsLentIsWhatIsBorrowed(t *testing.T) {
	some := 0
	for seed := range uint64(60) {
		w := &world{T: t, seed: seed, chance: rand.New(rand.NewPCG(seed, 20)), works: map[string]*quota.Workload{}, now: epoch}
		w.b = quota.NewBook(quota.NewTree(w.trees()))
		w.leaves = w.b.Tree().Names()
		for k := range 200 {
			w.step()
			lent, borrowed := w.b.LowestSums()
			if lent != borrowed {
				t.Fatalf("seed %d, step %d: the lowest queues lend %d and borrow %d", seed, k, lent, borrowed)
			}
			if borrowed > 0 {
				some++
			}
			for name, list := range w.b.Standings() {
				for _, s := range list {
					if s.Lent < 0 || s.Lent > s.Nominal || s.Borrowed < 0 || s.Borrowed > s.Used {
						t.Fatalf("seed %d, step %d: queue %s is at %+v", seed, k, name, s)
					}
				}
			}
		}
	}
	if some < 100 {
		t.Errorf("something was borrowed at %d steps only: the test shows little", some)
	}
}
