package health_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/health"
)

// world is what is really the matter with the GPUs of node, and an oracle that
// judges by the log alone: a whole GPU is healthy if nothing has marked it, or as
// many probes in a row as it needs were good since the last mark.
type world struct {
	rand  *rand.Rand
	state *health.State
	now   time.Time
	sick  map[string]time.Time // until when probes fail
	gone  map[string]time.Time // until when the driver does not see it
	good  map[string]int       // good probes since the last mark; absent is healthy
	grave map[string]int
	log   strings.Builder
}

func newWorld(seed uint64) *world {
	w := &world{
		rand: rand.New(rand.NewPCG(seed, 1)), state: health.New(health.Policy{}), now: start,
		sick: map[string]time.Time{}, gone: map[string]time.Time{}, good: map[string]int{}, grave: map[string]int{},
	}
	w.state.Inventory(node(), w.now)
	probe(w.state, w.now, nil)
	return w
}

var (
	codes = []int{13, 31, 45, 48, 63, 79, 94, 109, 119, 999}
	need  = map[gpu.XidClass]int{gpu.XidReset: 3, gpu.XidRestart: 3, gpu.XidSupport: 5}
	rank  = map[gpu.XidClass]int{gpu.XidReset: 1, gpu.XidSupport: 2, gpu.XidRestart: 3}
)

// happen lets something go wrong.
func (w *world) happen() {
	uuid := node()[w.rand.IntN(2)].UUID // the whole GPUs
	xid := codes[w.rand.IntN(len(codes))]
	until := w.now.Add(time.Duration(w.rand.IntN(600)) * time.Second)
	e := health.Event{UUID: uuid, Xid: xid, GI: -1}
	if w.rand.IntN(10) == 0 {
		e.Xid, e.Lost = 0, true
	}
	if e.Lost || xid == 79 {
		w.gone[uuid] = until
	}
	w.sick[uuid] = until
	got := w.state.Event(e, w.now)
	fmt.Fprintln(&w.log, w.now.Unix(), "event", e, got)
	class := gpu.Xid(xid).Class
	if e.Lost {
		class = gpu.XidRestart
	}
	if !e.Lost && gpu.Xid(xid).Healthy {
		return
	}
	if _, marked := w.good[uuid]; !marked {
		w.grave[uuid] = 0
	}
	w.good[uuid] = 0
	w.grave[uuid] = max(w.grave[uuid], rank[class])
}

func (w *world) inventory() []gpu.GPU {
	gpus := node()
	for i := range gpus {
		gpus[i].Healthy = !w.now.Before(w.gone[gpus[i].UUID])
	}
	return gpus
}

// step does what the agent does, and tells the oracle.
func (w *world) step() {
	if w.state.Stale(w.now) {
		w.state.Inventory(w.inventory(), w.now)
	}
	for _, uuid := range w.state.Due(w.now) {
		if w.rand.IntN(20) == 0 {
			continue // the answer is lost
		}
		var err error
		if w.now.Before(w.sick[uuid]) {
			err = errSick
		}
		got := w.state.Probed(uuid, err, w.now)
		fmt.Fprintln(&w.log, w.now.Unix(), "probe", uuid, err, got)
		if _, marked := w.good[uuid]; !marked {
			continue
		}
		w.good[uuid]++
		if err != nil {
			w.good[uuid] = 0
		}
		for class, r := range rank {
			if r == w.grave[uuid] && w.good[uuid] >= need[class] {
				delete(w.good, uuid)
			}
		}
	}
}

// TestSimulation runs days with seeds: the verdict is the oracle's at every
// moment, no GPU is given while it is sick and that was told, and all come back
// when the world is well.
func TestSimulation(t *testing.T) {
	for seed := range uint64(50) {
		logs := []string{}
		for range 2 {
			w := newWorld(seed)
			for range 3000 {
				if w.rand.IntN(100) == 0 {
					w.happen()
				}
				w.step()
				for _, g := range node() {
					_, marked := w.good[g.UUID]
					if healthy, _, _ := w.state.Verdict(g.UUID); healthy == marked {
						t.Fatalf("seed %d at %v: %s healthy is %v, the oracle says %v\n%s", seed, w.now, g.UUID, healthy, !marked, w.log.String())
					}
				}
				w.now = w.now.Add(time.Duration(1+w.rand.IntN(20)) * time.Second)
			}
			for range 10000 {
				if len(unhealthy(w.state)) == 0 {
					break
				}
				w.step()
				w.now = w.now.Add(10 * time.Second)
			}
			if got := unhealthy(w.state); len(got) > 0 {
				t.Fatalf("seed %d: %v did not come back in a day", seed, got)
			}
			logs = append(logs, w.log.String())
		}
		if logs[0] != logs[1] {
			t.Errorf("seed %d: two runs differ", seed)
		}
	}
}

// TestEventsOfDifferentGPUsDoNotDisturbEachOther feeds the same events in any
// order of GPUs.
func TestEventsOfDifferentGPUsDoNotDisturbEachOther(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		events := []health.Event{}
		for _, g := range node() {
			events = append(events, health.Event{UUID: g.UUID, Xid: codes[r.IntN(len(codes))], GI: []int{-1, 1, 5}[r.IntN(3)]})
		}
		var want []string
		for range 4 {
			s := begin(t, health.Policy{})
			for _, i := range r.Perm(len(events)) {
				s.Event(events[i], start)
			}
			got := unhealthy(s)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, %v: unhealthy %v or %v", seed, events, got, want)
			}
		}
	}
}
