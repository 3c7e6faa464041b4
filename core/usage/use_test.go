package usage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func second(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

func TestWatch(t *testing.T) {
	type reading struct {
		at    int // seconds
		ratio float64
	}
	for _, c := range []struct {
		name     string
		readings []reading
		want     string // since when it is low after each, in seconds
	}{
		{"a pod that works is not low", []reading{{0, .5}, {15, .9}, {30, .1}}, "- - -"},
		{"one that does nothing is low once it has for half a minute", []reading{{0, 0}, {15, 0}, {30, 0}, {45, .05}}, "- - 0 0"},
		{"low begins with the last reading at which it worked", []reading{{0, .5}, {15, 0}, {30, 0}, {45, 0}}, "- - 0 0"},
		{"a moment without work is not noted", []reading{{0, .5}, {15, 0}, {30, .5}, {45, 0}}, "- - - -"},
		{"low ends with the last reading at which it did nothing", []reading{{0, 0}, {15, 0}, {30, 0}, {45, .5}}, "- - 0 -<30"},
		{"what it did while it was not read for long is not known", []reading{{0, 0}, {30, 0}, {331, 0}, {361, 0}}, "- 0 -<30 331"},
		{"a short time without readings is not a gap", []reading{{0, 0}, {30, 0}, {330, 0}}, "- 0 0"},
		{"a reading that is older than the last says nothing", []reading{{0, 0}, {30, 0}, {20, .9}}, "- 0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, got := &Watch{}, ""
			for i, r := range c.readings {
				s := w.See(Activity{At: second(r.at), Ratio: r.ratio})
				if i > 0 {
					got += " "
				}
				if s.LowSince.IsZero() {
					got += "-"
				} else {
					got += fmt.Sprint(int(s.LowSince.Sub(epoch).Seconds()))
				}
				if !s.LowEnded.IsZero() {
					got += fmt.Sprintf("<%d", int(s.LowEnded.Sub(epoch).Seconds()))
				}
			}
			if got != c.want {
				t.Errorf("low since %q, want %q", got, c.want)
			}
		})
	}
}

func TestAWatchGoesOnAfterARestart(t *testing.T) {
	w := ResumeWatch(second(0), second(600))
	if s := w.See(Activity{At: second(700)}); !s.LowSince.Equal(second(0)) || !s.LowEnded.IsZero() {
		t.Errorf("soon after the restart it is low since %v, ended %v; want since the beginning", s.LowSince, s.LowEnded)
	}
	w = ResumeWatch(second(0), second(600))
	if s := w.See(Activity{At: second(1000)}); !s.LowSince.IsZero() || !s.LowEnded.Equal(second(600)) {
		t.Errorf("long after it is low since %v, ended %v; want that it ended when it was last read", s.LowSince, s.LowEnded)
	}
}

// TestUsesAddUp checks that the Uses of random readings are in order, within an hour each, and have all the time
// between readings that are not far apart.
func TestUsesAddUp(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 23))
		var uses []Use
		var read, used time.Duration
		w, last := &Watch{}, time.Time{}
		for now := second(0); now.Before(second(4 * 3600)); now = now.Add(time.Duration(1+r.IntN(400)) * time.Second) {
			ratio := float64(r.IntN(5)) / 4
			uses = append(uses, w.See(Activity{At: now, Ratio: ratio}).Uses...)
			if gap := now.Sub(last); !last.IsZero() && gap <= mostUnread {
				read += gap
				used += time.Duration(float64(gap) * ratio)
			}
			last = now
		}
		uses = append(uses, w.Close()...)
		var before time.Time
		for _, u := range uses {
			if u.From.Before(before) || !u.From.Before(u.To) || u.To.Sub(u.From.Truncate(time.Hour)) > time.Hour {
				t.Fatalf("seed %d: a use from %v to %v after one to %v", seed, u.From, u.To, before)
			}
			before = u.To
			read, used = read-u.To.Sub(u.From), used-u.Used
		}
		if read != 0 || used.Abs() > time.Microsecond {
			t.Fatalf("seed %d: %v of the time and %v of the use are in no Use", seed, read, used)
		}
	}
}
