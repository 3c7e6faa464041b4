package cost

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/usage"
)

// lab is two nodes for two hours, one of which has no price.
func lab() *Facts {
	dollar := []Price{{From: at(-60), Micros: 1_000_000, Currency: "USD", Source: "list"}}
	return &Facts{
		Nodes: []NodeFacts{
			{
				UID: "n1", Name: "a100-1", Product: "A100", Prices: dollar, Ups: []usage.Up{{Parts: 2 * whole, From: at(0), To: at(120)}},
				Holds: []usage.Hold{{Pod: "p1", Parts: whole, From: at(0), To: at(120)}, {Pod: "p2", Parts: whole, From: at(60), To: at(90)}}, Strands: []usage.Strand{{Reason: usage.Cordoned, Parts: 2 * whole, From: at(0), To: at(30)}},
			},
			{UID: "n2", Name: "home-1", Product: "T4", Prices: []Price{{From: at(-60)}}, Ups: []usage.Up{{Parts: whole, From: at(0), To: at(60)}}, Holds: []usage.Hold{{Pod: "p3", Parts: whole, From: at(0), To: at(60)}}},
		},
		Pods: map[string]Pod{
			"p1": {UID: "p1", Namespace: "vision", Name: "train-1", Kind: "Job", Owner: "train", User: "ann", Queue: "red"},
			"p2": {UID: "p2", Namespace: "speech", Name: "nb-0", Kind: "Notebook", Owner: "nb", User: "bob"},
			"p3": {UID: "p3", Namespace: "vision", Name: "x", Kind: "Pod", Owner: "x", User: "ann"},
		},
	}
}

func TestSum(t *testing.T) {
	for _, c := range []struct {
		by     By
		spread bool
		want   string
	}{
		{Namespace, false, "vision=2h $1.000000, speech=0.5h $0.250000, vision=1h unpriced, idle=1h $0.500000, cordoned=0.5h $0.250000"},
		{User, false, "ann=2h $1.000000, bob=0.5h $0.250000, ann=1h unpriced, idle=1h $0.500000, cordoned=0.5h $0.250000"},
		{Queue, false, "red=2h $1.000000, =0.5h $0.250000, =1h unpriced, idle=1h $0.500000, cordoned=0.5h $0.250000"},
		{Workload, false, "vision/Job/train=2h $1.000000, speech/Notebook/nb=0.5h $0.250000, vision/Pod/x=1h unpriced, idle=1h $0.500000, cordoned=0.5h $0.250000"},
		{Product, false, "A100=2.5h $1.250000, T4=1h unpriced, A100 idle=1h $0.500000, A100 cordoned=0.5h $0.250000"},
		{NodeName, false, "a100-1=2.5h $1.250000, home-1=1h unpriced, a100-1 idle=1h $0.500000, a100-1 cordoned=0.5h $0.250000"},
		{Namespace, true, "vision=2h $1.600000, speech=0.5h $0.400000, vision=1h unpriced"},
	} {
		rows := Sum(Account(lab(), at(0), at(120)), c.by)
		if c.spread {
			rows = Spread(rows)
		}
		if got := rowText(rows); got != c.want {
			t.Errorf("by %s, spread %v:\n%s, want\n%s", c.by, c.spread, got, c.want)
		}
	}
}

func rowText(rows []Row) (out string) {
	for i, r := range rows {
		if i > 0 {
			out += ", "
		}
		words := []string{r.Name}
		switch r.What {
		case Idle:
			words = append(words, "idle")
		case Stranded:
			words = append(words, string(r.Reason))
		case Held:
		}
		out += strings.TrimSpace(strings.Join(words, " "))
		out += fmt.Sprintf("=%vh", float64(r.PartMillis)/whole/3_600_000)
		if r.Currency == "" {
			out += " unpriced"
			continue
		}
		out += fmt.Sprintf(" $%d.%06d", r.Micros/1_000_000, r.Micros%1_000_000)
	}
	return out
}

// TestSumsAreTheWhole checks that rows add up to the same however they are added up and spread, and that the time
// before an hour does not change what is charged in it.
func TestSumsAreTheWhole(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 23))
		f := &Facts{Pods: map[string]Pod{}}
		for n := range 1 + r.IntN(3) {
			node := NodeFacts{UID: fmt.Sprint("n", n), Name: fmt.Sprint("node-", n), Product: fmt.Sprint("P", n%2), Ups: []usage.Up{{Parts: int64(1+r.IntN(8)) * whole, From: at(r.IntN(60)), To: at(100 + r.IntN(200))}}, Prices: []Price{{From: epoch, Micros: r.Int64N(50_000_000), Currency: []string{"USD", "EUR"}[r.IntN(2)], Source: "list"}}}
			for p := range r.IntN(8) {
				uid := fmt.Sprint("p", n, "-", p)
				node.Holds = append(node.Holds, usage.Hold{Pod: uid, Parts: whole / int64(1+r.IntN(3)), From: at(r.IntN(200)), To: at(r.IntN(300))})
				f.Pods[uid] = Pod{UID: uid, Namespace: fmt.Sprint("ns", p%3), Owner: uid, User: fmt.Sprint("u", r.IntN(3))}
			}
			f.Nodes = append(f.Nodes, node)
		}
		entries := Account(f, epoch, at(400))
		total := func(rows []Row) (millis int64, micros map[string]int64) {
			micros = map[string]int64{}
			for _, row := range rows {
				millis += row.PartMillis
				micros[row.Currency] += row.Micros
			}
			return millis, micros
		}
		millis, micros := total(Sum(entries, NodeName))
		for _, by := range Bys {
			rows := Sum(entries, by)
			m, c := total(rows)
			_, s := total(Spread(rows))
			if m != millis || fmt.Sprint(c) != fmt.Sprint(micros) || fmt.Sprint(s) != fmt.Sprint(micros) {
				t.Fatalf("seed %d: by %s the sums are %d and %v, spread %v, want %d and %v", seed, by, m, c, s, millis, micros)
			}
		}
		late := at(120)
		var want, got int64
		for e := range entries {
			if !e.From.Before(late) {
				want += e.Micros
			}
		}
		for e := range Account(f, late.Add(30*time.Minute), at(400)) {
			got += e.Micros
		}
		if got != want {
			t.Fatalf("seed %d: from %v on %d is charged, want %d", seed, late, got, want)
		}
	}
}
