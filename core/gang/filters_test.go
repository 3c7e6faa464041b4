package gang_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gang"
)

// rules are Filters of a few rules that scale with what is placed: no two members of a
// port on one node, no more than skew between zones, and followers only in a zone where
// a leader is.
type rules struct {
	port   []int // by member; 0 is none
	zone   []int // of each node
	skew   int   // 0 is any
	follow []bool
	placed [][2]int
}

func (r *rules) Kind(member int) int { return member }

func (r *rules) Refuses(member, node int) string {
	zones := map[int]int{}
	for _, z := range r.zone {
		zones[z] += 0
	}
	led := false
	for _, p := range r.placed {
		if p[1] == node && r.port[member] != 0 && r.port[p[0]] == r.port[member] {
			return "port"
		}
		zones[r.zone[p[1]]]++
		led = led || !r.follow[p[0]] && r.zone[p[1]] == r.zone[node]
	}
	least := len(r.placed)
	for _, n := range zones {
		least = min(least, n)
	}
	switch {
	case r.skew > 0 && zones[r.zone[node]]+1-least > r.skew:
		return "skew"
	case r.follow[member] && !led:
		return "no leader"
	}
	return ""
}

func (r *rules) Place(member, node int) { r.placed = append(r.placed, [2]int{member, node}) }
func (r *rules) Placed() int            { return len(r.placed) }
func (r *rules) KeepFirst(n int)        { r.placed = r.placed[:n] }

// four is four nodes of four GPUs in two zones.
func four() []place {
	var out []place
	for i := range 4 {
		out = append(out, place{fmt.Sprint("n", i), 4, gang.Place{Zone: fmt.Sprint("z", i/2)}})
	}
	return out
}

func TestAPlanIsWhatFiltersAllow(t *testing.T) {
	for _, tt := range []struct {
		name  string
		n     int
		rules rules
		want  []string // nil: refused
		no    gang.Refusal
	}{
		{"members with one port go to nodes of their own", 3, rules{port: []int{1, 1, 1}}, []string{"n0", "n1", "n2"}, gang.Refusal{}},
		{"members spread over zones alternate", 4, rules{skew: 1}, []string{"n0", "n2", "n0", "n2"}, gang.Refusal{}},
		{"a follower is placed after its leader, wherever it stands", 2, rules{follow: []bool{true, false}}, []string{"n0", "n0"}, gang.Refusal{}},
		{
			"a refusal counts nodes with room by what the filters say", 5,
			rules{port: []int{1, 1, 1, 1, 1}},
			nil,
			gang.Refusal{Need: 5, Fit: 4, Member: 4, Filtered: []gang.FilterCount{{Why: "port", Nodes: 4}}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := planner(t, four()...)
			r := tt.rules
			r.zone = []int{0, 0, 1, 1}
			r.port, r.follow = append(r.port, make([]int, tt.n)...), append(r.follow, make([]bool, tt.n)...)
			p.Filters = &r
			plan, no, err := p.Plan(&gang.Gang{Name: "g", Members: members(tt.n, 1), Within: gang.Cluster})
			if err != nil {
				t.Fatal(err)
			}
			if plan == nil {
				if diff := cmp.Diff(tt.no, *no); diff != "" || tt.want != nil || len(r.placed) > 0 {
					t.Errorf("refused, with %d placed: -want +got\n%s", len(r.placed), diff)
				}
				return
			}
			if diff := cmp.Diff(tt.want, nodesOf(p, plan)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestPlansKeepToFilters makes random gangs and rules, and holds for each plan that
// every member was allowed on its node when its turn came, that the Filters know all
// that is placed, and that a refusal leaves nothing on trial.
func TestPlansKeepToFilters(t *testing.T) {
	placed := 0
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p, n := planner(t, four()...), 1+rng.IntN(9)
		r := &rules{zone: []int{0, 0, 1, 1}, skew: rng.IntN(3)}
		for range n {
			r.port, r.follow = append(r.port, rng.IntN(3)), append(r.follow, rng.IntN(4) == 0)
		}
		p.Filters = r
		g := &gang.Gang{Name: "g", Members: members(n, 1+rng.IntN(2)), MinCount: rng.IntN(n + 1), Within: gang.Level(rng.IntN(int(gang.Cluster) + 1))}
		before := p.Placer.Snapshot().Clone()
		plan, no, err := p.Plan(g)
		switch {
		case err != nil:
			t.Fatalf("seed %d: %v", seed, err)
		case plan == nil:
			if len(r.placed) > 0 || no == nil || !before.Equal(p.Placer.Snapshot()) {
				t.Fatalf("seed %d: refused, and %d are still placed", seed, len(r.placed))
			}
			continue
		}
		placed++
		again := &rules{zone: r.zone, skew: r.skew, port: r.port, follow: r.follow}
		for _, i := range plan.Order {
			at := plan.Placed[i].Node
			if why := again.Refuses(i, at); why != "" {
				t.Fatalf("seed %d: member %d on node %d: %s", seed, i, at, why)
			}
			again.Place(i, at)
		}
		if diff := cmp.Diff(again.placed, r.placed); diff != "" || len(plan.Order) != plan.Count || plan.Count < g.MinCount {
			t.Fatalf("seed %d: %d placed of %d: %s", seed, plan.Count, g.MinCount, diff)
		}
	}
	if placed < 100 {
		t.Errorf("only %d gangs were placed", placed)
	}
}
