package preemption_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/sim/baseline"
	"berth.dev/berth/test/soak"
)

// load is pods that come to a small cluster at random moments of virtual time, more than
// it can run, most of them small.
type load struct {
	t        *testing.T
	rng      *rand.Rand
	c        *preemption.Cluster
	reserver *queue.Reserver
	clock    time.Time
	waits    []*job // in the order of their turns
	runs     []*job
	log      []string
	worst    time.Duration
	used     time.Duration // GPU time
}

// job is a pod of a load.
type job struct {
	queue.Ticket
	asks  cluster.Request
	run   time.Duration
	ends  time.Time
	at    cluster.Placement
	keeps bool // at is kept for it, and not free yet
}

// step lets a second pass: those who are done leave, some come, and all that fit start.
func (l *load) step(arrivals, most int) {
	l.clock = l.clock.Add(time.Second)
	for _, over := range l.reserver.Expire(l.clock) {
		l.keeper(over.ID).keeps = false
	}
	l.runs = slices.DeleteFunc(l.runs, func(j *job) bool {
		if l.clock.Before(j.ends) {
			return false
		}
		if err := l.c.Snapshot.Release(&j.at); err != nil {
			l.t.Fatal(err)
		}
		return true
	})
	for range arrivals {
		j := &job{asks: whole(1), run: time.Duration(5+l.rng.IntN(20)) * time.Second}
		if l.rng.IntN(8) == 0 && most > 1 {
			j.asks = whole(int32(2 + l.rng.IntN(most-1)))
		}
		j.Ticket = queue.Ticket{Age: queue.Age{Created: l.clock, UID: fmt.Sprintf("%06d", l.rng.IntN(1e6))}, Priority: int32(l.rng.IntN(2) * l.rng.IntN(2) * l.rng.IntN(2))}
		l.waits = append(l.waits, j)
	}
	slices.SortFunc(l.waits, func(a, b *job) int { return queue.Compare(a.Ticket, b.Ticket) })
	l.waits = slices.DeleteFunc(l.waits, l.start)
}

func (l *load) keeper(id string) *job {
	for _, j := range l.waits {
		if j.UID == id {
			return j
		}
	}
	return &job{}
}

// promised assumes what is kept for others that come before j, as far as it is free.
func (l *load) promised(j *job) func() {
	m := l.c.Snapshot.Mark()
	for _, o := range l.waits {
		if !o.keeps || o == j || queue.Compare(j.Ticket, o.Ticket) < 0 {
			continue
		}
		for _, d := range o.at.Devices {
			_ = l.c.Snapshot.Assume(&cluster.Placement{Node: o.at.Node, Request: whole(1), Devices: []cluster.Device{d}})
		}
	}
	return func() { l.c.Snapshot.RollBack(m) }
}

// start starts a job if it fits beside what is kept, and else asks for a reservation.
func (l *load) start(j *job) bool {
	undo := l.promised(j)
	var on []int
	for i := range l.c.Snapshot.Len() {
		if j.keeps && i != j.at.Node {
			continue
		}
		if placement.Fit(l.c.Snapshot, i, &j.asks) == placement.Fits {
			on = append(on, i)
		}
	}
	var devices []cluster.Device
	if len(on) > 0 && !j.keeps {
		devices = baseline.NewFirstFit(placement.Setup{}).Devices(l.c.Snapshot, on[0], &j.asks, nil)
	}
	undo()
	switch {
	case j.keeps:
		if l.c.Snapshot.Assume(&j.at) != nil {
			return false // not all has come free
		}
	case len(on) == 0:
		l.reserve(j)
		return false
	default:
		j.at = cluster.Placement{Node: on[0], Request: j.asks, Devices: devices}
		if err := l.c.Snapshot.Assume(&j.at); err != nil {
			l.t.Fatal(err)
		}
	}
	j.ends = l.clock.Add(j.run)
	j.keeps = false
	l.runs = append(l.runs, j)
	l.reserver.Bound(j.Ticket, j.UID, fmt.Sprint("n", j.at.Node))
	l.worst = max(l.worst, l.clock.Sub(j.Created))
	l.used += time.Duration(j.asks.GPUs) * j.run
	l.log = append(l.log, fmt.Sprint(l.clock.Unix(), j.UID, j.at.Node))
	return true
}

// reserve keeps a place for a job that has a claim.
func (l *load) reserve(j *job) {
	claim, ok := l.reserver.Refused(&queue.Waiter{
		Ticket: j.Ticket, ID: j.UID, Line: fmt.Sprint(j.asks.GPUs, "/", j.Priority), Since: j.Created, Uses: func(string) bool { return true },
	}, l.clock)
	if !ok {
		return
	}
	for i := range l.c.Holders {
		l.c.Holders[i] = nil
	}
	for k, r := range l.runs {
		h := preemption.Holder{Placement: r.at, Start: r.ends.Add(-r.run)}
		if k%2 == 0 {
			h.Ends = r.ends
		}
		l.c.Holders[r.at.Node] = append(l.c.Holders[r.at.Node], h)
	}
	for _, o := range l.waits {
		if o.keeps {
			l.c.Holders[o.at.Node] = append(l.c.Holders[o.at.Node], preemption.Holder{Placement: o.at, Promise: true})
		}
	}
	plan, _, ok := preemption.Await(l.c, &preemption.Preemptor{Members: []cluster.Request{j.asks}}, l.clock)
	if !ok {
		l.reserver.Vain(claim.ID, l.clock)
		return
	}
	j.at, j.keeps = plan.Placements[0], true
	l.reserver.Kept(claim.ID, []string{fmt.Sprint("n", j.at.Node)})
}

// play runs a load for a quarter of an hour, and counts those that wait at its end too.
func play(t *testing.T, seed uint64, after time.Duration) *load {
	rng := rand.New(rand.NewPCG(seed, 20))
	var nodes []cluster.Spec
	most := 0
	for i := range 1 + rng.IntN(3) {
		n := 2 + rng.IntN(3)
		most = max(most, n)
		nodes = append(nodes, spec(t, fmt.Sprint("n", i), "Tesla T4", n))
	}
	l := &load{t: t, rng: rng, c: newCluster(t, nodes...), reserver: queue.NewReserver(after), clock: time.Unix(1e9, 0)}
	for second := range 900 {
		arrivals := 0
		if len(l.waits) < 3*len(nodes) && second%2 == 0 {
			arrivals = 1 + rng.IntN(2)
		}
		l.step(arrivals, most)
	}
	for _, j := range l.waits {
		l.worst = max(l.worst, l.clock.Sub(j.Created))
	}
	return l
}

// TestWaitsAreBounded: whatever comes, no pod that fits the empty cluster waits for longer
// than the bound, as all pods end in 25 seconds; equal input gives equal decisions; and
// without reservations some wait for minutes.
func TestWaitsAreBounded(t *testing.T) {
	const bound = 4 * time.Minute
	var with, without []time.Duration
	var used, usedWithout time.Duration
	for seed := range soak.Pick[uint64](40, 2000) {
		l, again, none := play(t, seed, 10*time.Second), play(t, seed, 10*time.Second), play(t, seed, 0)
		if !reflect.DeepEqual(l.log, again.log) {
			t.Fatalf("seed %d: equal input, other decisions", seed)
		}
		if l.worst > bound {
			t.Errorf("seed %d: a pod waits for %v", seed, l.worst)
		}
		with, without = append(with, l.worst), append(without, none.worst)
		used, usedWithout = used+l.used, usedWithout+none.used
	}
	slices.Sort(with)
	slices.Sort(without)
	half := len(with) / 2
	t.Logf("longest wait of a load: median %v, at most %v; without reservations %v, %v; GPU time used: %.1f %% of that without",
		with[half], with[len(with)-1], without[half], without[len(without)-1], 100*used.Seconds()/usedWithout.Seconds())
	if without[len(without)-1] <= bound {
		t.Error("no load in which anything starves")
	}
}
