package ledger

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/usage"
)

var epoch = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }

func open(t *testing.T, path string) *Book {
	t.Helper()
	b, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "ledger.db")
	b := open(t, path)
	node := Node{UID: "n1", Name: "a100-1", Product: "A100", Instance: "p4d.24xlarge", Region: "us-east-1", Capacity: cost.Spot}
	pod := cost.Pod{UID: "p1", Namespace: "vision", Name: "train-1", Kind: "Job", Owner: "train", User: "ann", Queue: "red", Labels: "team=a,x="}
	up := Ups{Key: "n1", Value: 8, From: at(0)}
	held := Holds{Key: "p1", Value: Hold{"n1", 4}, From: at(10)}
	price := Prices{Key: "n1", Value: Price{5, "USD", "list", "on-demand"}, From: at(0)}
	strand := Strands{Key: StrandKey(Strand{"n1", usage.Cordoned}), Value: 8, From: at(20)}
	write := func(batch *Batch, alive time.Time) {
		t.Helper()
		if err := b.Write(t.Context(), batch, alive); err != nil {
			t.Fatal(err)
		}
	}
	write(&Batch{Nodes: []Node{node}, Pods: []cost.Pod{pod}, Holds: []Holds{held}, Ups: []Ups{up}, Prices: []Prices{price}, Strands: []Strands{strand}}, at(20))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, path)
	got, err := b.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &State{Holds: []Holds{held}, Ups: []Ups{up}, Strands: []Strands{strand}, Prices: []Prices{price}, Nodes: map[string]Node{"n1": node}, Began: at(20), Alive: at(20)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what goes on is not as it was written (-want +got):\n%s", diff)
	}
	held.To, held.End = at(50), usage.End{Source: usage.Stated, Late: time.Second}
	write(&Batch{Holds: []Holds{held}}, at(60))
	facts, err := b.Facts(t.Context(), at(40), at(60))
	if err != nil {
		t.Fatal(err)
	}
	wantFacts := &cost.Facts{Pods: map[string]cost.Pod{"p1": pod}, Nodes: []cost.NodeFacts{{
		UID: "n1", Name: "a100-1", Product: "A100", Ups: []usage.Up{{Parts: 8, From: at(0)}}, Holds: []usage.Hold{{Pod: "p1", Parts: 4, From: at(10), To: at(50)}},
		Strands: []usage.Strand{{Reason: usage.Cordoned, Parts: 8, From: at(20)}}, Prices: []cost.Price{{From: at(0), Micros: 5, Currency: "USD", Source: "list", Remark: "on-demand"}},
	}}}
	if diff := cmp.Diff(wantFacts, facts); diff != "" {
		t.Errorf("the facts are not as they were written (-want +got):\n%s", diff)
	}
	if facts, err = b.Facts(t.Context(), at(50), at(60)); err != nil || len(facts.Nodes) != 1 || len(facts.Nodes[0].Holds) != 0 {
		t.Errorf("after its end the pod still holds: %+v, %v", facts, err)
	}
}

func TestABookHasOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	first := open(t, path)
	if _, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another process writes to it: stop that one first") {
		t.Errorf("the second gets the error %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestABookOfANewerProgramIsNotOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	b := open(t, path)
	if _, err := b.db.ExecContext(t.Context(), fmt.Sprint("PRAGMA user_version = ", version+1)); err != nil {
		t.Fatal(err)
	}
	_ = b.Close()
	if _, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "run the newer program") {
		t.Errorf("a book of a newer program gets the error %v", err)
	}
}

// TestABookIsWhatTracksSay plays random holds into a book, opens it again now and then, and compares the charges with
// those without a book.
func TestABookIsWhatTracksSay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	b := open(t, path)
	r := rand.New(rand.NewPCG(7, 24))
	track := usage.NewTrack[string, Hold](nil)
	want := map[string]usage.Hold{}
	if err := b.Write(t.Context(), &Batch{Ups: []Ups{{Key: "n1", Value: 8, From: at(0)}}, Prices: []Prices{{Key: "n1", Value: Price{3_600_000, "USD", "list", ""}, From: at(0)}}}, at(0)); err != nil {
		t.Fatal(err)
	}
	for step := range 300 {
		pod, now := fmt.Sprint("p", r.IntN(20)), at(step)
		var changed []Holds
		if r.IntN(3) == 0 {
			changed = track.End(pod, now, usage.End{Source: usage.Seen})
		} else {
			changed = track.Set(pod, Hold{"n1", int64(1 + r.IntN(2))}, now)
		}
		for _, h := range changed {
			want[h.Key+h.From.String()] = usage.Hold{Pod: h.Key, Parts: h.Value.Parts, From: h.From, To: h.To}
		}
		if err := b.Write(t.Context(), &Batch{Holds: changed}, now); err != nil {
			t.Fatal(err)
		}
		if r.IntN(50) == 0 {
			_ = b.Close()
			b = open(t, path)
			s, err := b.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !s.Alive.Equal(now) {
				t.Errorf("the writer was last there at %v, want %v", s.Alive, now)
			}
			track = usage.NewTrack(s.Holds)
		}
	}
	facts, err := b.Facts(t.Context(), at(0), at(400))
	if err != nil {
		t.Fatal(err)
	}
	plain := &cost.Facts{Nodes: []cost.NodeFacts{{UID: "n1", Ups: []usage.Up{{Parts: 8, From: at(0)}}, Prices: []cost.Price{{From: at(0), Micros: 3_600_000, Currency: "USD", Source: "list"}}}}}
	for _, h := range want {
		plain.Nodes[0].Holds = append(plain.Nodes[0].Holds, h)
	}
	if diff := cmp.Diff(cost.Sum(cost.Account(plain, at(0), at(400)), cost.Workload), cost.Sum(cost.Account(facts, at(0), at(400)), cost.Workload)); diff != "" {
		t.Errorf("what is charged differs from what it is without a book (-without +with):\n%s", diff)
	}
}
