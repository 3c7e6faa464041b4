package meter

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/test/golden"
)

// cell is what is in the cells of a spreadsheet with a line for each second: GPU-seconds, and dollars.
type cell struct{ seconds, dollars *big.Rat }

func (c *cell) add(gpus, price *big.Rat) {
	if c.seconds == nil {
		c.seconds, c.dollars = new(big.Rat), new(big.Rat)
	}
	c.seconds.Add(c.seconds, gpus)
	c.dollars.Add(c.dollars, new(big.Rat).Mul(price, gpus))
}

// cells adds the week up second by second, by a name of each lifetime, and what the nodes cost by "nodes".
func cells(lives []lifetime, name func(*lifetime) string) map[string]*cell {
	out := map[string]*cell{}
	get := func(name string) *cell {
		if out[name] == nil {
			out[name] = &cell{}
		}
		return out[name]
	}
	for i := range machines {
		m := &machines[i]
		for hour := monday; hour.Before(weekEnd); hour = hour.Add(time.Hour) { // prices and cordons change at full hours
			price := perSecond(m, hour)
			get("nodes").add(big.NewRat(int64(m.gpus)*3600, 1), price)
			stranded := !m.cordoned.IsZero() && !m.cordoned.After(hour)
			held := new(big.Rat)
			for k := range lives {
				l := &lives[k]
				if l.node != m.name || !l.bound.Before(hour.Add(time.Hour)) || !l.ended.After(hour) {
					continue
				}
				seconds := int64(0)
				for at := hour; at.Before(hour.Add(time.Hour)); at = at.Add(time.Second) {
					if !at.Before(l.bound) && at.Before(l.ended) {
						seconds++
					}
				}
				if seconds == 0 {
					continue
				}
				gpus := big.NewRat(seconds*int64(l.count), int64(max(1, m.replica)*max(1, m.mig)))
				get(name(l)).add(gpus, price)
				held.Add(held, gpus)
			}
			rest := new(big.Rat).Sub(big.NewRat(int64(m.gpus)*3600, 1), held)
			if stranded {
				get("(stranded)").add(rest, price)
			} else {
				get("(idle)").add(rest, price)
			}
		}
	}
	return out
}

// perSecond is what a GPU of a node costs a second, in dollars.
func perSecond(m *machine, at time.Time) *big.Rat {
	micros := int64(0)
	for _, r := range m.rates {
		if !r.from.After(at) {
			micros = r.micros
		}
	}
	return big.NewRat(micros, dollar*3600*int64(m.gpus))
}

// TestAWeekOfThreeTeams compares the ledger of a week with a spreadsheet, to the millionth for all, and for each row within what is
// rounded when an hour is shared.
func TestAWeekOfThreeTeams(t *testing.T) {
	r := playWeek(t)
	lives := theWeek()
	for by, name := range map[cost.By]func(*lifetime) string{
		cost.Namespace: func(l *lifetime) string { return l.team },
		cost.Queue:     func(l *lifetime) string { return l.team },
		cost.User:      func(l *lifetime) string { return l.user },
		cost.Workload:  func(l *lifetime) string { return l.team + "/" + l.kind + "/" + l.owner },
	} {
		rows, err := r.book.Rows(t.Context(), monday, weekEnd, by)
		if err != nil {
			t.Fatal(err)
		}
		want := cells(lives, name)
		sum := int64(0)
		for _, row := range rows {
			text := row.Name
			switch row.What {
			case cost.Idle:
				text = "(idle)"
			case cost.Stranded:
				text = "(stranded)"
			case cost.Held:
			}
			c := want[text]
			if c == nil {
				t.Errorf("by %s: the ledger has %q, and the spreadsheet does not", by, text)
				continue
			}
			delete(want, text)
			micros, _ := new(big.Rat).Mul(c.dollars, big.NewRat(dollar, 1)).Float64()
			if off := float64(row.Micros) - micros; off > 1000 || off < -1000 {
				t.Errorf("by %s: %s is charged %d, and by the spreadsheet %.3f", by, text, row.Micros, micros)
			}
			millis := new(big.Rat).Mul(c.seconds, big.NewRat(1000*quota.Whole, 1))
			if millis.Cmp(new(big.Rat).SetInt64(row.PartMillis)) != 0 {
				t.Errorf("by %s: %s held %d, and by the spreadsheet %s", by, text, row.PartMillis, millis.FloatString(1))
			}
			sum += row.Micros
		}
		all, _ := new(big.Rat).Mul(want["nodes"].dollars, big.NewRat(dollar, 1)).Float64()
		if float64(sum) != all {
			t.Errorf("by %s all rows are %d, and the nodes cost %.3f", by, sum, all)
		}
		delete(want, "nodes")
		for name := range want {
			t.Errorf("by %s: the spreadsheet has %q, and the ledger does not", by, name)
		}
	}
	golden.File(t, "week.json", answers(t, r))
}

// answers are what the ledger answers of the week, for the report that is made of it.
func answers(t *testing.T, r *rig) string {
	m := New(r.book, Options{})
	q := &cost.Question{From: monday, To: weekEnd, By: cost.Namespace}
	report, err := m.report(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{"cost": report}
	for _, by := range []cost.By{cost.User, cost.Queue, cost.Workload} {
		uq := &cost.UseQuestion{From: monday, To: weekEnd, By: by, Grace: cost.Grace}
		rows, err := useOf(t.Context(), r.book, uq)
		if err != nil {
			t.Fatal(err)
		}
		out[string(by)] = cost.NewUseReport(rows, monday, uq, quota.Whole)
	}
	raw, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw) + "\n"
}

// openCostPage is the page whose table TestOpenCostOnTheSameWeek makes.
const openCostPage = "../../docs/background/opencost.md"

// TestOpenCostOnTheSameWeek compares what the ledger charges for each case with what OpenCost's formulas bill.
func TestOpenCostOnTheSameWeek(t *testing.T) {
	lives := theWeek()
	truth := cells(lives, func(l *lifetime) string { return l.what })
	exact, one := openCost(lives, ofItsNode), openCost(lives, oneForAll)
	var b strings.Builder
	b.WriteString("| case | GPU-hours held | true cost | billed, exact prices | billed, one price |\n|---|---|---|---|---|\n")
	line := func(name string, c *cell, exact, one float64) {
		seconds, _ := c.seconds.Float64()
		dollars, _ := c.dollars.Float64()
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %.2f (%s) | %.2f (%s) |\n", name, seconds/3600, dollars, exact, off(exact, dollars), one, off(one, dollars))
	}
	sumExact, sumOne := 0.0, 0.0
	for _, name := range weekCases {
		line(name, truth[name], exact[name], one[name])
		sumExact, sumOne = sumExact+exact[name], sumOne+one[name]
	}
	rest := &cell{}
	for _, name := range []string{"(idle)", "(stranded)"} {
		rest.add(truth[name].seconds, new(big.Rat))
		rest.dollars.Add(rest.dollars, truth[name].dollars)
	}
	nodes, _ := truth["nodes"].dollars.Float64()
	line("GPUs without a holder", rest, nodes-sumExact, nodes-sumOne)
	line("all nodes", truth["nodes"], nodes, nodes)
	page, err := os.ReadFile(openCostPage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- table of controller/meter, go test -run TestOpenCostOnTheSameWeek -update -->\n", "<!-- end of table -->\n"
	before, has, found := strings.Cut(string(page), begin)
	has, after, ends := strings.Cut(has, end)
	switch {
	case !found || !ends:
		t.Fatalf("%s has no place for the table", openCostPage)
	case golden.Updates():
		if err := os.WriteFile(openCostPage, []byte(before+begin+b.String()+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	case has != b.String():
		t.Errorf("the page has\n%s\nand the week is\n%s", has, b.String())
	}
}

// off is by how much something is billed too much or too little.
func off(billed, truth float64) string {
	if truth == 0 {
		return "-"
	}
	return strings.Replace(fmt.Sprintf("%+.0f%%", 100*(billed-truth)/truth), "-0%", "+0%", 1)
}
