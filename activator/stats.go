package activator

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/serving"
)

// How often a stream of stats has a line.
const (
	statsEvery  = time.Second           // while figures change
	statsAtMost = 20 * time.Millisecond // between two lines, when requests are held
	statsSilent = 5 * time.Second       // without any change, to show that it is there
)

// TokenHeader is the header with the token of those who ask for figures by the API server's proxy.
const TokenHeader = api.StatsTokenHeader

// teller says to those who ask what is asked of each service.
type teller struct {
	set *Set

	mu    sync.Mutex
	asked map[chan struct{}]bool // told when a request is held
}

func newTeller(s *Set) *teller { return &teller{set: s, asked: map[chan struct{}]bool{}} }

// held has all streams say at once what they know.
func (t *teller) held() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.asked {
		select {
		case c <- struct{}{}:
		default: // it is about to
		}
	}
}

// ServeHTTP answers with a line of JSON, a serving.Stats, and with watch=true with another one whenever figures have changed,
// until the client goes.
func (t *teller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	told := map[string]serving.Requests{}
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	if out.Encode(t.since(told)) != nil || r.FormValue("watch") != "true" {
		return
	}
	news := make(chan struct{}, 1)
	t.mu.Lock()
	t.asked[news] = true
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.asked, news)
		t.mu.Unlock()
	}()
	flush := http.NewResponseController(w)
	tick := time.NewTicker(statsEvery)
	defer tick.Stop()
	for last := time.Now(); flush.Flush() == nil; {
		select {
		case <-r.Context().Done():
			return
		case <-news:
			time.Sleep(time.Until(last.Add(statsAtMost)))
		case <-tick.C:
		}
		line := t.since(told)
		if len(line.Services) == 0 && time.Since(last) < statsSilent {
			continue
		}
		last = time.Now()
		if out.Encode(line) != nil {
			return
		}
	}
}

// since returns the figures that differ from those that were told, and notes that they are.
func (t *teller) since(told map[string]serving.Requests) *serving.Stats {
	line := &serving.Stats{Began: t.set.began, Services: map[string]*serving.Requests{}}
	now := t.set.all()
	for name, is := range now {
		if was, ok := told[name]; !ok || !was.Equal(&is) {
			told[name] = is
			line.Services[name] = &is
		}
	}
	for name := range told {
		if _, ok := now[name]; !ok {
			delete(told, name)
			line.Services[name] = nil
		}
	}
	return line
}

// all returns the figures of the predictors of all services, by namespace/name.
func (s *Set) all() map[string]serving.Requests {
	sums := s.sums()
	out := make(map[string]serving.Requests, len(sums))
	for name, g := range sums {
		out[name.String()] = serving.Requests{
			InFlight: g.InFlight, Held: g.Held, Stable: g.Concurrency, Panic: g.PanicConcurrency, StableRate: g.Rate, PanicRate: g.PanicRate, Last: g.LastRequest.Round(0),
			Split: serving.SplitFor(g.Split),
		}
	}
	return out
}
