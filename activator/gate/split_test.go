package gate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/activator/gate"
)

// sent lets so many requests through, one after the other, and returns how many of them were at each backend.
func sent(t *testing.T, g *gate.Gate, n int) map[string]int {
	t.Helper()
	out := map[string]int{}
	for range n {
		ticket, err := g.Try()
		if ticket == nil || err != nil {
			t.Fatalf("a request is not let through: %v", err)
		}
		out[ticket.Backend().Address()]++
		g.Ended(ticket, ticket.Backend().Address() == "c", 10*time.Millisecond)
		g.Leave(ticket)
	}
	return out
}

func TestRequestsAreDivided(t *testing.T) {
	g := gate.New(gate.Limits{}, nil)
	g.SetSplit([]string{"a", "b"}, []string{"c"}, "new", 20)
	if got := sent(t, g, 1000); got["c"] != 200 || got["a"] != 400 || got["b"] != 400 {
		t.Errorf("of 1000 requests with a canary of 20%% %v are at each backend", got)
	}
	s := g.Stats().Split
	if s.Revision != "new" || s.Percent != 20 || s.Canary.Answers != 200 || s.Canary.Errors != 200 || s.Stable.Answers != 800 || s.Stable.Errors != 0 || s.Stable.Slow() < 10*time.Millisecond {
		t.Errorf("what came of them is %+v", s)
	}
	g.SetSplit([]string{"a", "b"}, nil, "new", 20)
	if got := sent(t, g, 100); got["c"] != 0 {
		t.Errorf("without a pod the canary gets %v", got)
	}
	g.SetSplit(nil, []string{"c"}, "new", 20)
	if got := sent(t, g, 10); got["c"] != 10 {
		t.Errorf("without another pod the canary gets %v", got)
	}
	g.SetBackends([]string{"a"})
	if got := sent(t, g, 10); got["a"] != 10 || g.Stats().Split != nil || g.Splits() {
		t.Errorf("without a split %v are at each backend", got)
	}
}

func TestACanaryWithoutAShareGetsNothing(t *testing.T) {
	g := gate.New(gate.Limits{}, nil)
	g.SetSplit([]string{"a"}, []string{"c"}, "new", 0)
	if got := sent(t, g, 100); got["a"] != 100 {
		t.Errorf("%v are at each backend", got)
	}
	g.SetSplit(nil, []string{"c"}, "new", 0)
	if ticket, err := g.Try(); ticket != nil || err != nil || !g.Empty() {
		t.Errorf("with nothing but a canary without a share a request gets %v, %v", ticket, err)
	}
}

// A canary that refuses connections is left alone for a moment, as every backend is, and the revision before answers.
func TestACanaryThatRefusesLosesNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Limits{}, nil)
		g.SetSplit([]string{"a"}, []string{"c"}, "new", 50)
		moved := 0
		for range 100 {
			ticket, err := g.Try()
			if err != nil || ticket == nil {
				t.Fatalf("a request is not let through: %v", err)
			}
			if ticket.Backend().Address() == "c" {
				g.Ended(ticket, true, 0)
				g.Again(ticket, func(err error) {
					if err != nil {
						t.Errorf("a request that the canary refused is refused: %v", err)
					}
				})
				if ticket.Backend() == nil || ticket.Backend().Address() != "a" {
					t.Fatal("a request that the canary refused is not at the revision before")
				}
				moved++
			}
			g.Ended(ticket, false, time.Millisecond)
			g.Leave(ticket)
			time.Sleep(100 * time.Millisecond)
		}
		if s := g.Stats().Split; moved == 0 || s.Canary.Errors != moved || s.Stable.Answers != 100 {
			t.Errorf("%d requests are refused by the canary, and counted as %+v", moved, s)
		}
	})
}

func TestWhatIsCountedOfACanaryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Limits{}, nil)
		g.SetSplit([]string{"a"}, []string{"c"}, "new", 50)
		sent(t, g, 10)
		time.Sleep(4 * time.Minute)
		g.SetSplit([]string{"a"}, []string{"c"}, "new", 30) // another share
		sent(t, g, 10)
		if s := g.Stats().Split; s.Canary.Answers+s.Stable.Answers != 20 {
			t.Errorf("of 20 requests within five minutes %+v is known", s)
		}
		time.Sleep(2 * time.Minute)
		if s := g.Stats().Split; s.Canary.Answers+s.Stable.Answers != 10 {
			t.Errorf("of 10 requests within five minutes, and 10 before, %+v is known", s)
		}
		g.SetSplit([]string{"a"}, []string{"c"}, "new", 0)
		if s := g.Stats().Split; s.Canary.Answers+s.Stable.Answers != 10 {
			t.Errorf("when the canary is backed out, %+v is known", s)
		}
		g.SetSplit([]string{"a"}, []string{"c"}, "new", 40)
		if s := g.Stats().Split; s.Canary.Answers+s.Stable.Answers != 0 {
			t.Errorf("when it gets requests again, %+v is known", s)
		}
		ticket, _ := g.Try()
		g.SetSplit([]string{"a"}, []string{"c"}, "newer", 40)
		g.Ended(ticket, false, time.Second)
		g.Leave(ticket)
		if s := g.Stats().Split; s.Canary.Answers+s.Stable.Answers != 0 || s.Revision != "newer" {
			t.Errorf("of the next canary, %+v is known", s)
		}
	})
}
