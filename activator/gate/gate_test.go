package gate_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/activator/gate"
	"berth.dev/berth/test/soak"
)

// request is one request as the slow twin knows it.
type request struct {
	number  int
	bytes   int64
	arrived time.Time
	ticket  *gate.Ticket
	at      string    // the backend that it was sent to
	state   string    // "held", "in flight", "ended", or the reason of its refusal
	asked   bool      // for a decision that has not come
	until   time.Time // zero while inside
}

// twin drives a gate and writes down what it does, without any cleverness.
type twin struct {
	t        *testing.T
	mu       sync.Mutex
	g        *gate.Gate
	limits   gate.Limits
	backends []string
	resting  map[string]time.Time
	refusals map[string]int // of connections in a row, by backend
	all      []*request
	began    time.Time
}

func newTwin(t *testing.T, l gate.Limits) *twin {
	w := &twin{t: t, limits: l, resting: map[string]time.Time{}, refusals: map[string]int{}, began: time.Now()}
	w.g = gate.New(l, nil)
	return w
}

// arrive brings a request, as the proxy does.
func (w *twin) arrive(bytes int64) *request {
	r := &request{number: len(w.all), bytes: bytes, arrived: time.Now()}
	held, heldBytes := 0, int64(0)
	for _, o := range w.all {
		if o.state == "held" {
			held++
			heldBytes += o.bytes
		}
	}
	free := w.room()
	ticket, err := w.g.Try()
	if ticket == nil && err == nil {
		r.state, r.asked = "held", true
		ticket, err = w.g.Hold(bytes, func(err error) { w.decided(r, err) })
	} else if err == nil {
		w.through(r, ticket)
	}
	if ticket != nil && held == 0 && (len(free) > 0) != (ticket.Backend() != nil) {
		w.t.Fatalf("request %d is %s while %v have room", r.number, r.state, free)
	}
	r.ticket = ticket
	if refusal, ok := errors.AsType[*gate.Refusal](err); ok {
		r.state = string(refusal.Reason)
		tooMany, tooLarge := held >= w.limits.Held, heldBytes+bytes > w.limits.Bytes
		if refusal.Reason == gate.TooMany && !tooMany || refusal.Reason == gate.TooLarge && !tooLarge {
			w.t.Fatalf("request %d is refused (%v) with %d held, of %d bytes", r.number, err, held, heldBytes)
		}
		return r
	}
	w.all = append(w.all, r)
	return r
}

// room returns the backends that could have one more.
func (w *twin) room() []string {
	var free []string
	for _, b := range w.backends {
		if !time.Now().Before(w.resting[b]) && (w.limits.PerBackend == 0 || w.inFlight(b) < w.limits.PerBackend) {
			free = append(free, b)
		}
	}
	return free
}

func (w *twin) inFlight(backend string) int {
	n := 0
	for _, r := range w.all {
		if r.state == "in flight" && r.at == backend {
			n++
		}
	}
	return n
}

// through notes that a request goes to a backend, which must be the least busy.
func (w *twin) through(r *request, ticket *gate.Ticket) {
	at, free := ticket.Backend().Address(), w.room()
	if !slices.Contains(free, at) {
		w.t.Fatalf("request %d goes to %s, which has no room; %v have", r.number, at, free)
	}
	for _, b := range free {
		if w.inFlight(b) < w.inFlight(at) {
			w.t.Fatalf("request %d goes to %s with %d in flight while %s has %d", r.number, at, w.inFlight(at), b, w.inFlight(b))
		}
	}
	for _, o := range w.all {
		if o.state == "held" && o.number < r.number {
			w.t.Fatalf("request %d goes before %d", r.number, o.number)
		}
	}
	r.state, r.at, r.bytes = "in flight", at, 0 // nothing of it is kept
}

func (w *twin) decided(r *request, err error) {
	w.mu.Lock() // the gate's timer calls from other goroutines
	defer w.mu.Unlock()
	if !r.asked || r.state != "held" {
		w.t.Fatalf("request %d, which is %s, is decided on again", r.number, r.state)
	}
	r.asked = false
	var refusal *gate.Refusal
	switch {
	case err == nil:
		w.through(r, r.ticket)
	case errors.As(err, &refusal):
		r.state, r.until = string(refusal.Reason), time.Now()
		if refusal.Reason == gate.TooLong && time.Since(r.arrived) < w.limits.Wait {
			w.t.Fatalf("request %d is refused after %v", r.number, time.Since(r.arrived))
		}
	}
}

// some returns one of the requests in a state, or nil.
func (w *twin) some(rng *rand.Rand, state string) *request {
	var all []*request
	for _, r := range w.all {
		if r.state == state && r.ticket != nil {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[rng.IntN(len(all))]
}

// check compares the gate with what was written down.
func (w *twin) check() {
	w.t.Helper()
	synctest.Wait()
	held, inFlight, bytes := 0, 0, int64(0)
	for _, r := range w.all {
		switch r.state {
		case "held":
			held++
			bytes += r.bytes
			if time.Since(r.arrived) > w.limits.Wait {
				w.t.Fatalf("request %d is held for %v", r.number, time.Since(r.arrived))
			}
		case "in flight":
			inFlight++
		}
	}
	s := w.g.Stats()
	if s.Held != held || s.InFlight != inFlight || held > w.limits.Held || bytes > w.limits.Bytes {
		w.t.Fatalf("the gate has %d held and %d in flight; want %d (%d bytes) and %d", s.Held, s.InFlight, held, bytes, inFlight)
	}
	if free := w.room(); held > 0 && len(free) > 0 {
		w.t.Fatalf("%d are held while %v have room", held, free)
	}
	for window, got := range map[time.Duration]float64{gate.Stable: s.Concurrency, gate.Panic: s.PanicConcurrency} {
		if want := w.mean(window); math.Abs(got-want) > 1e-6*max(1, want) {
			w.t.Fatalf("over %v a mean of %v are inside, want %v", window, got, want)
		}
	}
}

// mean is how many requests were inside on average since the start of the second that a
// window begins with, or since the gate was made.
func (w *twin) mean(window time.Duration) float64 {
	now := time.Now()
	from := time.Unix(now.Unix()-int64(window/time.Second)+1, 0)
	if w.began.After(from) {
		from = w.began
	}
	inside, sum := 0, time.Duration(0)
	for _, r := range w.all {
		until := r.until
		if until.IsZero() {
			inside, until = inside+1, now
		}
		if r.arrived.Before(from) {
			sum += max(0, until.Sub(from))
		} else {
			sum += until.Sub(r.arrived)
		}
	}
	if !now.After(from) {
		return float64(inside)
	}
	return sum.Seconds() / now.Sub(from).Seconds()
}

// step does one thing at random.
func (w *twin) step(rng *rand.Rand) {
	switch rng.IntN(13) {
	case 0, 1, 2, 3:
		w.arrive(rng.Int64N(300))
	case 4, 5, 6:
		if r := w.some(rng, "in flight"); r != nil {
			r.state, r.until = "ended", time.Now()
			w.g.Leave(r.ticket)
		}
	case 7:
		if r := w.some(rng, "held"); r != nil {
			r.state, r.until = "ended", time.Now()
			if !w.g.Abandon(r.ticket) {
				w.t.Fatalf("request %d was held, and the gate had decided", r.number)
			}
		}
	case 8:
		if r := w.some(rng, "in flight"); r != nil && r.at != "gone" {
			w.resting[r.at] = time.Now().Add(min(time.Second, 20*time.Millisecond<<w.refusals[r.at]))
			w.refusals[r.at]++
			r.state, r.asked, r.at = "held", true, ""
			w.again(r)
		}
	case 9:
		w.backends = nil
		for _, b := range []string{"a:1", "b:1", "c:1"} {
			if rng.IntN(2) == 0 {
				w.backends = append(w.backends, b)
			} else { // when it comes back, it is another pod
				delete(w.resting, b)
				delete(w.refusals, b)
				for _, r := range w.all {
					if r.state == "in flight" && r.at == b {
						r.at = "gone"
					}
				}
			}
		}
		w.g.SetBackends(w.backends)
	default:
		w.mu.Lock() // what was read until here comes before what the timer does
		w.mu.Unlock()
		time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond)
	}
}

// again has a request that a backend refused try once more.
func (w *twin) again(r *request) {
	held := 0
	for _, o := range w.all {
		if o.state == "held" {
			held++
		}
	}
	w.g.Again(r.ticket, func(err error) { w.decided(r, err) })
	if r.state == string(gate.TooMany) && held <= w.limits.Held {
		w.t.Fatalf("request %d is refused with %d held", r.number, held)
	}
}

func TestAGateDoesAsItsSlowTwinSays(t *testing.T) {
	for seed := range uint64(soak.Pick(30, 500)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 1))
				w := newTwin(t, gate.Limits{Held: 8, Bytes: 1000, Wait: 5 * time.Second, PerBackend: int(seed % 4)})
				for range 400 {
					w.step(rng)
					w.check()
				}
				w.g.Close("the test is over")
				for _, r := range w.all {
					if r.state == "held" {
						t.Errorf("request %d is held at the end", r.number)
					}
				}
			})
		})
	}
}

func TestWakeIsCalledAtOnceAndEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		g := gate.New(gate.Limits{Wait: 2500 * time.Millisecond}, func() { at = append(at, time.Since(began)) })
		hold := func() {
			if _, err := g.Hold(1, func(error) {}); err != nil {
				t.Error(err)
			}
		}
		hold()
		time.Sleep(300 * time.Millisecond)
		hold() // the next in line is not news
		time.Sleep(5 * time.Second)
		hold() // the others were refused, and this one is
		time.Sleep(time.Millisecond)
		if want := []time.Duration{0, time.Second, 2 * time.Second, 5300 * time.Millisecond}; !slices.Equal(at, want) {
			t.Errorf("wake was called after %v, want %v", at, want)
		}
		g.Close("the test is over")
	})
}

func TestRatesAreThoseOfTheirWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Limits{}, nil)
		g.SetBackends([]string{"a:1"})
		for range 600 { // ten a second, each of 50 ms, for a minute
			ticket, err := g.Try()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
			g.Leave(ticket)
			time.Sleep(50 * time.Millisecond)
		}
		near := func(got, want float64) bool { return math.Abs(got-want) < want/50 }
		if s := g.Stats(); !near(s.Rate, 10) || !near(s.PanicRate, 10) || !near(s.Concurrency, 0.5) || !near(s.PanicConcurrency, 0.5) {
			t.Errorf("after a minute of ten requests a second: %+v", s)
		}
		time.Sleep(6 * time.Second)
		if s := g.Stats(); s.PanicRate != 0 || s.PanicConcurrency != 0 || !near(s.Rate, 9) || s.LastRequest.IsZero() {
			t.Errorf("six seconds later: %+v", s)
		}
		time.Sleep(time.Hour)
		if s := g.Stats(); s.Rate != 0 || s.Concurrency != 0 {
			t.Errorf("an hour later: %+v", s)
		}
	})
}
