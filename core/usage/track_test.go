package usage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestTrack(t *testing.T) {
	type track = Track[string, int]
	for _, c := range []struct {
		name string
		play func(*track) []Interval[string, int]
		want string
	}{
		{"a value begins", func(k *track) []Interval[string, int] { return k.Set("a", 1, at(5)) }, "a=1 5-"},
		{"the same value again is nothing new", func(k *track) []Interval[string, int] { k.Set("a", 1, at(5)); return k.Set("a", 1, at(9)) }, ""},
		{"another value ends the one before", func(k *track) []Interval[string, int] { k.Set("a", 1, at(5)); return k.Set("a", 2, at(9)) }, "a=1 5-9 seen, a=2 9-"},
		{"another value from before the one there is counts from when that began, in its place", func(k *track) []Interval[string, int] {
			k.Set("a", 1, at(5))
			return k.Set("a", 2, at(3))
		}, "a=2 5-"},
		{"an end", func(k *track) []Interval[string, int] {
			k.Set("a", 1, at(5))
			return k.End("a", at(7), End{Source: Stated})
		}, "a=1 5-7 stated"},
		{"an end before it began is when it began", func(k *track) []Interval[string, int] {
			k.Set("a", 1, at(5))
			return k.End("a", at(1), End{Source: LastSeen, Late: time.Minute})
		}, "a=1 5-5 lastSeen"},
		{"an end of what is not there is nothing", func(k *track) []Interval[string, int] { return k.End("a", at(1), End{}) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for i, v := range c.play(NewTrack[string, int](nil)) {
				if i > 0 {
					got += ", "
				}
				got += fmt.Sprintf("%s=%d %v-", v.Key, v.Value, v.From.Sub(epoch).Minutes())
				if !v.To.IsZero() {
					got += fmt.Sprintf("%v %s", v.To.Sub(epoch).Minutes(), v.End.Source)
				}
			}
			if got != c.want {
				t.Errorf("changed are %q, want %q", got, c.want)
			}
		})
	}
}

// TestATrackThatIsStoppedGoesOn plays random values, and makes a new track from what was written at each step:
// together they write the same as one track that is never stopped.
func TestATrackThatIsStoppedGoesOn(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 22))
		type row = Interval[int, int]
		type key struct {
			key  int
			from time.Time
		}
		once, often := map[key]row{}, map[key]row{}
		write := func(to map[key]row, list []row) {
			for _, i := range list {
				to[key{i.Key, i.From}] = i
			}
		}
		whole := NewTrack[int, int](nil)
		for step := range 60 {
			var open []row
			for _, i := range often {
				if i.To.IsZero() {
					open = append(open, i)
				}
			}
			again := NewTrack(open)
			k, v, now := r.IntN(4), r.IntN(3), at(step)
			if v == 0 {
				write(once, whole.End(k, now, End{Source: Seen}))
				write(often, again.End(k, now, End{Source: Seen}))
			} else {
				write(once, whole.Set(k, v, now))
				write(often, again.Set(k, v, now))
			}
		}
		if len(once) != len(often) {
			t.Fatalf("seed %d: %d intervals are written with stops, want %d", seed, len(often), len(once))
		}
		for k, want := range once {
			if often[k] != want {
				t.Fatalf("seed %d: %+v is written with stops, want %+v", seed, often[k], want)
			}
		}
	}
}
