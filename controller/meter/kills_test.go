package meter

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/test/soak"
)

// childVariable says to a process of this test to be a meter that is killed: the folder, the seed, the length of its history, the minute to go on from, and
// whether node agents keep records.
const childVariable = "BERTH_KILLED_METER"

// TestAKilledMeter is the process that TestProcessesThatAreKilledBillExactly kills.
func TestAKilledMeter(t *testing.T) {
	words := strings.Split(os.Getenv(childVariable), " ")
	if len(words) != 5 {
		t.Skip("this is a part of TestProcessesThatAreKilledBillExactly")
	}
	dir := words[0]
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	seed, minutes, from := number(words[1]), number(words[2]), number(words[3])
	w, r := newWorld(uint64(seed), minutes), rigOf(t, filepath.Join(dir, "ledger.db"))
	note := func(file string, minute int) {
		path := filepath.Join(dir, file)
		if err := errors.Join(os.WriteFile(path+".new", []byte(strconv.Itoa(minute)), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	r.clock = at(from)
	r.start()
	w.show(r, from, words[4] == "records")
	r.flush()
	note("flushed", from)
	c := rand.New(rand.NewPCG(uint64(seed), uint64(from)))
	for minute := from + 1; minute <= minutes; minute++ {
		note("minute", minute)
		w.step(r, minute)
		if c.IntN(3) == 0 || minute == minutes {
			r.flush()
			note("flushed", minute)
		}
	}
	note("done", minutes)
}

// outage is a time of which a meter that was killed has seen nothing but what was there at its end.
type outage struct{ from, to int }

// TestProcessesThatAreKilledBillExactly has a process write a book and kills it at random moments, at a write and between writes, until
// its history is over. Sums equal those of the history: ends that objects say to the millisecond, and others within what the book says. With records
// of node agents, no pod of a node that is still there is missing, and each end is exact.
func TestProcessesThatAreKilledBillExactly(t *testing.T) {
	left := soak.Pick(6, 200)
	for seed := 0; left > 0; seed++ {
		dir := t.TempDir()
		minutes, records := 700, []string{"none", "records"}[seed%2]
		var outages []outage
		read := func(file string) int {
			raw, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			n, _ := strconv.Atoi(string(raw))
			return n
		}
		c := rand.New(rand.NewPCG(uint64(seed), 61))
		for from := 0; ; {
			cmd := exec.Command(os.Args[0], "-test.run=^TestAKilledMeter$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %d %s", childVariable, dir, seed, minutes, from, records))
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			killed := false
			if left > 0 {
				for begun := read("minute"); read("minute") == begun && len(ended) == 0; { // it writes
					time.Sleep(time.Millisecond)
				}
				select {
				case err := <-ended:
					ended <- err
				case <-time.After(time.Duration(c.IntN(150_000)) * time.Microsecond):
					killed = cmd.Process.Kill() == nil
				}
			}
			err := <-ended
			if read("done") == minutes {
				break
			}
			if !killed {
				t.Fatalf("seed %d: the meter has ended: %v\n%s", seed, err, out.String())
			}
			left--
			from = min(minutes, read("minute")+c.IntN(12))
			outages = append(outages, outage{read("flushed"), from})
		}
		if problems := newWorld(uint64(seed), minutes).compare(t, filepath.Join(dir, "ledger.db"), outages, minutes, records == "records"); len(problems) > 0 {
			t.Fatalf("seed %d, outages %v: %s", seed, outages, strings.Join(problems[:min(5, len(problems))], "\n"))
		}
	}
}

// row is an interval of a book.
type row struct {
	node       string
	begins     int64
	ends, late int64
	source     string
	parts      int64
}

// intervals reads a table of a book, by its key.
func intervals(t *testing.T, path, query string) map[string][]row {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string][]row{}
	for rows.Next() {
		var key string
		var r row
		if err := rows.Scan(&key, &r.node, &r.begins, &r.ends, &r.source, &r.late, &r.parts); err != nil {
			t.Fatal(err)
		}
		out[key] = append(out[key], r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// compare returns in what a book differs from a history that was watched but in some outages.
func (w *world) compare(t *testing.T, path string, outages []outage, minutes int, records bool) (problems []string) {
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	millis := func(minute int) int64 { return at(min(minute, minutes)).UnixMilli() }
	unseen := func(from, to int) *outage { // the outage that they are within
		for i := range outages {
			if o := &outages[i]; o.from <= from && to <= o.to {
				return o
			}
		}
		return nil
	}
	recorded := func(p *aLife, o *outage) bool { // there is an agent to ask at the end of an outage
		return records && w.machineOf(p.node, p.bound) == w.machineOf(p.node, o.to)
	}
	end := func(what string, r row, want int) {
		switch truth := millis(want); {
		case r.source == string(usage.LastSeen):
			if r.ends > truth || r.ends+r.late < truth {
				wrong("%s ends at %d, up to %d later, want %d", what, r.ends, r.late, truth)
			}
		case r.ends != truth:
			wrong("%s ends at %d (%s), want %d", what, r.ends, r.source, truth)
		}
	}
	holds := intervals(t, path, fmt.Sprintf("SELECT pod, node, begins, COALESCE(ends, %d), source, late, parts FROM holds WHERE COALESCE(ends, 1 << 60) > begins OR late > 0 ORDER BY pod, begins", millis(minutes)))
	for i := range w.pods {
		p := &w.pods[i]
		list := holds["uid-"+p.name]
		delete(holds, "uid-"+p.name)
		if p.bound >= minutes {
			continue
		}
		if len(list) == 0 {
			if o := unseen(p.bound-1, p.gone); o == nil || recorded(p, o) {
				wrong("pod %+v is not in the book", *p)
			}
			continue
		}
		parts := int64(quota.Whole)
		if p.mig {
			parts = quota.Whole / 7
		}
		for k, r := range list {
			if r.parts != parts {
				wrong("pod %+v holds %d parts, want %d", *p, r.parts, parts)
			}
			if k > 0 && r.begins != list[k-1].ends {
				wrong("pod %+v holds nothing from %d to %d", *p, list[k-1].ends, r.begins)
			}
		}
		if list[0].begins != millis(p.bound) {
			wrong("pod %+v begins at %d, want %d", *p, list[0].begins, millis(p.bound))
		}
		last := list[len(list)-1]
		if o := unseen(min(p.bound, p.gone-1), p.gone); last.source == string(usage.LastSeen) && o != nil && recorded(p, o) {
			wrong("pod %+v ends at %d (%s), which an agent has recorded", *p, last.ends, last.source)
		}
		end(fmt.Sprintf("pod %+v", *p), last, p.end)
	}
	if len(holds) > 0 {
		wrong("the book has pods that never were: %v", holds)
	}
	ups := intervals(t, path, fmt.Sprintf("SELECT node, node, begins, COALESCE(ends, %d), source, late, parts FROM ups ORDER BY node, begins", millis(minutes)))
	for i := range w.machines {
		m := &w.machines[i]
		list := ups[m.uid]
		if m.created >= minutes {
			continue
		}
		if len(list) != 1 || list[0].begins != millis(m.created) || list[0].parts != int64(m.gpus)*quota.Whole {
			wrong("node %+v is in the book as %v", *m, list)
			continue
		}
		end(fmt.Sprintf("node %+v", *m), list[0], m.gone)
	}
	return append(problems, balance(t, path, minutes)...)
}

// balance checks that each node is held, idle, or stranded all the time, never twice, and that its charges are its price.
func balance(t *testing.T, path string, minutes int) (problems []string) {
	f, err := rigOf(t, path).book.Facts(t.Context(), at(0), at(minutes))
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		millis, want := int64(0), int64(0)
		hours := map[time.Time]int64{}
		for e := range cost.Account(&cost.Facts{Nodes: []cost.NodeFacts{*n}, Pods: f.Pods}, at(0), at(minutes)) {
			millis += e.PartMillis
			hours[e.From.Truncate(time.Hour)] += e.Micros
		}
		for _, up := range n.Ups {
			to := up.To
			if to.IsZero() {
				to = at(minutes)
			}
			want += up.Parts * to.Sub(up.From).Milliseconds()
			for _, s := range usage.Spans(up, n.Holds, n.Strands, at(minutes)) {
				if s.Over > 0 {
					problems = append(problems, fmt.Sprintf("node %s is held twice from %v to %v", n.Name, s.From, s.To))
				}
			}
			for hour := up.From.Truncate(time.Hour); hour.Before(to); hour = hour.Add(time.Hour) {
				from, end := hour, hour.Add(time.Hour)
				if from.Before(up.From) {
					from = up.From
				}
				if end.After(to) {
					end = to
				}
				if price := 7_000_001 * end.Sub(from).Milliseconds() / time.Hour.Milliseconds(); hours[hour] != price {
					problems = append(problems, fmt.Sprintf("node %s is charged %d in the hour from %v, want %d", n.Name, hours[hour], hour, price))
				}
			}
		}
		if millis != want {
			problems = append(problems, fmt.Sprintf("node %s: %d part-milliseconds are charged, want %d", n.Name, millis, want))
		}
	}
	return problems
}
