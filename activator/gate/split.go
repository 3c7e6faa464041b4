package gate

import (
	"time"

	"berth.dev/berth/core/serving"
)

// slot is how long answers are counted together.
const slot = 10 * time.Second

// split is how requests are divided between two revisions, and what came of them.
type split struct {
	revision       string // the canary
	percent        int
	share          serving.Share
	stable, canary window
}

// with is a split with its next share. Counts are kept, unless the canary is another one or gets requests again.
func (s *split) with(revision string, percent int) *split {
	switch {
	case revision == "":
		return nil
	case s == nil || s.revision != revision || s.percent == 0 && percent > 0:
		return &split{revision: revision, percent: percent}
	}
	s.percent = percent
	return s
}

// seen is what came of the requests; of none it is nil.
func (s *split) seen(now time.Time) *serving.Split {
	if s == nil {
		return nil
	}
	return &serving.Split{Revision: s.revision, Percent: s.percent, Stable: s.stable.sum(now), Canary: s.canary.sum(now)}
}

// window counts over serving.OutcomeWindow.
type window [serving.OutcomeWindow/slot + 1]struct {
	number int64 // of the slot, since the epoch
	serving.Outcomes
}

func slotOf(at time.Time) int64 { return at.UnixNano() / int64(slot) }

// at is where an answer is counted.
func (w *window) at(now time.Time) *serving.Outcomes {
	n := slotOf(now)
	s := &w[n%int64(len(w))]
	if s.number != n {
		s.number, s.Outcomes = n, serving.Outcomes{}
	}
	return &s.Outcomes
}

// sum adds up the slots of the window that ends now.
func (w *window) sum(now time.Time) (out serving.Outcomes) {
	for i := range w {
		if n := slotOf(now); w[i].number > n-int64(len(w)) && w[i].number <= n {
			out.Add(&w[i].Outcomes)
		}
	}
	return out
}

// Ended counts what came of a request at the backend that had it, if requests are divided: an error, or an answer that took so long.
func (g *Gate) Ended(t *Ticket, failed bool, took time.Duration) {
	if t.split == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	w := &t.split.stable
	if t.canary {
		w = &t.split.canary
	}
	o := w.at(time.Now())
	if o.Answers++; failed {
		o.Errors++
		return
	}
	o.Times[serving.Step(took)]++
}
