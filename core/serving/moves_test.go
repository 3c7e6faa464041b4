package serving_test

import (
	"cmp"
	"strings"
	"testing"

	"berth.dev/berth/core/serving"
)

// replicas reads a word: r is ready, s starts; R and S leave their nodes.
func replicas(word string) (out []serving.Replica) {
	for _, c := range word {
		out = append(out, serving.Replica{Ready: c == 'r' || c == 'R', Leaves: c == 'R' || c == 'S'})
	}
	return out
}

func TestExtra(t *testing.T) {
	for _, tt := range []struct {
		name     string
		wanted   int
		replicas string
		rolling  bool
		extra    int
	}{
		{"none while all nodes stay", 2, "rr", false, 0},
		{"one for the replica that leaves", 1, "R", false, 1},
		{"one until the new one answers", 1, "Rs", false, 1},
		{"none when the new one answers, so the old one ends", 1, "Rr", false, 0},
		{"one for each that leaves", 3, "rRR", false, 2},
		{"all of them until all that are wanted answer elsewhere", 3, "rRRr", false, 2},
		{"also for one that has not started", 2, "rS", false, 1},
		{"none for replicas beyond those that are wanted", 1, "rR", false, 0},
		{"no more than are wanted, whatever leaves", 1, "RR", false, 1},
		{"none during a rollout", 1, "Rs", true, 0},
		{"none of a service without replicas", 0, "R", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := serving.Extra(tt.wanted, replicas(tt.replicas), tt.rolling); got != tt.extra {
				t.Errorf("%d more replicas, want %d", got, tt.extra)
			}
		})
	}
}

func TestBudget(t *testing.T) {
	const why, full = "node a is cordoned", "no node has a free GPU"
	for _, tt := range []struct {
		name  string
		seen  serving.Seen
		least int // -1 is no limit
	}{
		{"all but one while all nodes stay", serving.Seen{Wanted: 3, Ready: 3, Stay: 3}, 2},
		{"also while one has no GPU, so the next is evicted when that one answers", serving.Seen{Wanted: 3, Ready: 2, Stay: 2, Waits: full}, 2},
		{"no limit for a single replica, which would hold up all that empties its node", serving.Seen{Wanted: 1, Ready: 1, Stay: 1}, -1},
		{"no limit for a service without replicas", serving.Seen{Leaves: why}, -1},
		{"no limit where the user wants none", serving.Seen{Service: &serving.Service{Unprotected: true}, Wanted: 3, Ready: 3, Stay: 3}, -1},
		{"replicas that move are protected all the same", serving.Seen{Service: &serving.Service{Unprotected: true}, Wanted: 2, Ready: 2, Stay: 1, Leaves: why}, 2},
		{"as many as are wanted while the new one starts", serving.Seen{Wanted: 1, Ready: 1, Leaves: why}, 1},
		{"the only one may be evicted if there is no room for another", serving.Seen{Wanted: 1, Ready: 1, Leaves: why, Waits: full}, 0},
		{"one of two that leave may be evicted if there is no room", serving.Seen{Wanted: 2, Ready: 2, Leaves: why, Waits: full}, 1},
		{"then the other", serving.Seen{Wanted: 2, Ready: 1, Leaves: why, Waits: full}, 0},
		{"those that stay may not be evicted", serving.Seen{Wanted: 4, Ready: 3, Stay: 2, Leaves: why, Waits: full}, 2},
		{"none may that does not leave, also if all that leave are gone", serving.Seen{Wanted: 4, Ready: 2, Stay: 2, Leaves: why, Waits: full}, 2},
		{"a model that cannot be loaded holds no drain up", serving.Seen{Wanted: 1, Ready: 1, Leaves: why, Fault: &serving.Fault{}}, 0},
		{"one that leaves before it answers needs no protection", serving.Seen{Wanted: 1, Leaves: why, Waits: full}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.seen.Service = cmp.Or(tt.seen.Service, &serving.Service{})
			if least, ok := tt.seen.Budget(); ok != (tt.least >= 0) || ok && least != tt.least {
				t.Errorf("%d have to answer (%v), want %d", least, ok, tt.least)
			}
		})
	}
}

// A move ends, and on the way no fewer replicas answer than are wanted.
func TestAMoveLosesNoReplica(t *testing.T) {
	for wanted := 1; wanted <= 4; wanted++ {
		for first := 1; first <= wanted; first++ {
			leave, stay := first, wanted-first
			for range 2 * wanted {
				word := strings.Repeat("R", leave) + strings.Repeat("r", stay)
				if extra := serving.Extra(wanted, replicas(word), false); extra > 0 {
					stay++ // a new replica gets ready
				} else {
					leave = max(0, leave-1) // those that leave are ended first
				}
				if stay+leave < wanted || stay > wanted {
					t.Fatalf("after %s, %d of %d replicas answer", word, stay+leave, wanted)
				}
			}
			if leave != 0 || stay != wanted {
				t.Fatalf("in the end %d replicas leave, and %d of %d stay", leave, stay, wanted)
			}
		}
	}
}
