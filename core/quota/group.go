package quota

import (
	"cmp"
	"slices"
	"time"
)

// group is pods that are evicted together: one that its gang can spare, or all of a gang.
type group struct {
	pods   []*Holder
	whole  bool // a gang ends
	leaves bool // all of it ends anyway
	spared bool // it goes after all others
}

// compare orders groups by who goes first: those that end anyway, those that are not spared, the lowest
// priority, idle ones, those that their gang can spare, those that lose least work, the youngest.
func (g *group) compare(o *group, now time.Time) int {
	return cmp.Or(
		byBool(o.leaves, g.leaves), byBool(g.spared, o.spared), cmp.Compare(g.priority(), o.priority()), byBool(o.idle(), g.idle()), byBool(g.whole, o.whole),
		cmp.Compare(g.lost(now), o.lost(now)), o.pods[0].Start.Compare(g.pods[0].Start), cmp.Compare(g.pods[0].ID, o.pods[0].ID),
	)
}

func byBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (g *group) idle() bool {
	return !slices.ContainsFunc(g.pods, func(h *Holder) bool { return !h.Idle })
}

func (g *group) parts() (sum int64) {
	for _, h := range g.pods {
		sum += h.parts()
	}
	return sum
}

func (g *group) priority() int32 {
	most := g.pods[0].Priority
	for _, h := range g.pods {
		most = max(most, h.Priority)
	}
	return most
}

// lost is the parts of GPUs times seconds since each pod's start or checkpoint.
func (g *group) lost(now time.Time) float64 {
	sum := 0.0
	for _, h := range g.pods {
		sum += h.Lost(now)
	}
	return sum
}

// Lost is the work, in GPU-seconds, that a pod may have to do again if it ends now.
func (h *Holder) Lost(now time.Time) float64 {
	if h.Start.IsZero() {
		return 0
	}
	age := max(0, now.Sub(h.Start))
	if h.Checkpoint > 0 {
		age = min(age, h.Checkpoint)
	}
	return float64(h.parts()) / Whole * age.Seconds()
}

// parts are the parts of GPUs that a pod holds.
func (h *Holder) parts() (sum int64) {
	for _, p := range h.Pieces {
		sum += p.Parts
	}
	return sum
}
