package queue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/queue"
)

func TestABusyAPIServerGetsFewerWrites(t *testing.T) {
	p := queue.Pace{Rate: 10, Least: 1}
	took := func(list ...time.Duration) (w queue.Writes) { // one a second
		now := time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)
		for _, d := range list {
			now = now.Add(time.Second)
			w.Took(d*time.Millisecond, now)
		}
		return w
	}
	for _, c := range []struct {
		name   string
		writes queue.Writes
		want   float64 // a second
	}{
		{"before a write", queue.Writes{}, 10},
		{"an API server that always takes 30 ms is far away, and not busy", took(slices.Repeat([]time.Duration{30}, 20)...), 10},
		{"one that takes a little longer is not busy either", took(append(slices.Repeat([]time.Duration{4}, 20), 7, 7, 7, 7)...), 10},
		{"one that takes eight times as long gets a quarter", took(append(slices.Repeat([]time.Duration{6}, 20), slices.Repeat([]time.Duration{48}, 12)...)...), 2.7},
		{"one that takes a second gets the least", took(append(slices.Repeat([]time.Duration{4}, 20), slices.Repeat([]time.Duration{1000}, 12)...)...), 1},
		{"a burst of two minutes is not usual", took(append(slices.Repeat([]time.Duration{5}, 20), slices.Repeat([]time.Duration{100}, 120)...)...), 2},
		{"one that is slower for good is not busy after a quarter of an hour", took(append(slices.Repeat([]time.Duration{5}, 20), slices.Repeat([]time.Duration{100}, 900)...)...), 10},
		{"when it is quick again, it has them all", took(4, 4, 4, 100, 100, 100, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4), 10},
	} {
		if got := p.Slowed(c.writes).Rate; got < c.want-0.2 || got > c.want+0.2 {
			t.Errorf("%s: %.2f writes a second, want %.1f", c.name, got, c.want)
		}
	}
}

func TestPace(t *testing.T) {
	now := time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)
	p := queue.Pace{Rate: 2, Burst: 3, Ahead: 5 * time.Second}
	at := func(id string, ago time.Duration, u queue.Urgency) queue.Change {
		return queue.Change{ID: id, Since: now.Add(-ago), Urgency: u}
	}
	used := func(n int, ago time.Duration) queue.Spent {
		var many []queue.Change
		for i := range n {
			many = append(many, at(fmt.Sprint(i), 0, queue.Number))
		}
		_, spent := p.Due(many, queue.Spent{}, now.Add(-ago))
		return spent
	}
	for _, c := range []struct {
		name  string
		spent queue.Spent
		list  []queue.Change
		want  []string
	}{
		{
			"after a quiet time as many as a burst are written, by name where they are equally old",
			queue.Spent{},
			[]queue.Change{at("d", 0, 0), at("c", 0, 0), at("b", 0, 0), at("a", 0, 0)},
			[]string{"a", "b", "c"},
		},
		{
			"the change that has waited longest is written first",
			queue.Spent{},
			[]queue.Change{at("new", 0, 0), at("old", time.Second, 0)},
			[]string{"old", "new"},
		},
		{"nothing is written right after a burst", used(3, 0), []queue.Change{at("a", 0, 0)}, nil},
		{"half a second after a burst one more is written", used(3, 500*time.Millisecond), []queue.Change{at("a", 0, 0), at("b", 0, 0)}, []string{"a"}},
		{
			"a long time after a burst no more than a burst is written", used(3, time.Hour),
			[]queue.Change{at("a", 0, 0), at("b", 0, 0), at("c", 0, 0), at("d", 0, 0)},
			[]string{"a", "b", "c"},
		},
		{
			"what people wait for comes before numbers that changed a little earlier", used(3, 500*time.Millisecond),
			[]queue.Change{at("number", 4*time.Second, 0), at("awaited", 0, queue.Awaited)},
			[]string{"awaited"},
		},
		{
			"a number that has waited for long comes before what people wait for", used(3, 500*time.Millisecond),
			[]queue.Change{at("number", 6*time.Second, 0), at("awaited", 0, queue.Awaited)},
			[]string{"number"},
		},
		{
			"what is to be written at once is, whatever was spent", used(3, 0),
			[]queue.Change{at("number", time.Hour, 0), at("b", 0, queue.AtOnce), at("a", 0, queue.AtOnce)},
			[]string{"a", "b"},
		},
		{
			"what is written at once counts among the writes of a burst", used(1, 0),
			[]queue.Change{at("a", 0, 0), at("b", 0, 0), at("c", 0, queue.AtOnce)},
			[]string{"c", "a"},
		},
		{"a clock that goes back earns nothing", used(3, -time.Hour), []queue.Change{at("a", 0, 0)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			due, _ := p.Due(c.list, c.spent, now)
			if got := ids(due); !slices.Equal(got, c.want) {
				t.Errorf("due are %q, want %q", got, c.want)
			}
		})
	}
}

func ids(list []queue.Change) (out []string) {
	for _, c := range list {
		out = append(out, c.ID)
	}
	return out
}

// TestPaceIsKeptAndForgetsNothing lets statuses change at random: no more are written in any time than
// the pace allows, none waits longer than the others need that may come before it, and the order
// of the list does not matter.
func TestPaceIsKeptAndForgetsNothing(t *testing.T) {
	const statuses = 40
	p := queue.Pace{Rate: 4, Burst: 6, Ahead: 2 * time.Second}
	longest := time.Duration(statuses/p.Rate*float64(time.Second)) + p.Ahead + time.Second
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 18))
		now, spent := time.Unix(1_800_000_000, 0), queue.Spent{}
		changed := map[string]queue.Change{}
		var written []time.Time
		for range 400 {
			now = now.Add(time.Duration(rng.IntN(500)) * time.Millisecond)
			for range rng.IntN(10) {
				c := queue.Change{ID: fmt.Sprint("q", rng.IntN(statuses)), Since: now, Urgency: queue.Urgency(rng.IntN(2))}
				if was, waits := changed[c.ID]; waits {
					c.Since, c.Urgency = was.Since, max(was.Urgency, c.Urgency)
				}
				changed[c.ID] = c
			}
			var list []queue.Change // in the order of a map
			for _, c := range changed {
				list = append(list, c)
			}
			due, left := p.Due(list, spent, now)
			slices.Reverse(list)
			if again, _ := p.Due(list, spent, now); !slices.Equal(due, again) {
				t.Fatalf("seed %d: %v are due, and of the same list in another order %v", seed, ids(due), ids(again))
			}
			spent = left
			for _, c := range due {
				if waited := now.Sub(c.Since); waited > longest {
					t.Fatalf("seed %d: %s has waited %s, longer than %s", seed, c.ID, waited, longest)
				}
				delete(changed, c.ID)
				written = append(written, now)
			}
		}
		for i := range written {
			for k := i; k < len(written); k++ {
				if most := float64(p.Burst) + p.Rate*written[k].Sub(written[i]).Seconds(); float64(k-i+1) > most+1e-6 {
					t.Fatalf("seed %d: %d were written in %s, more than %g", seed, k-i+1, written[k].Sub(written[i]), most)
				}
			}
		}
	}
}
