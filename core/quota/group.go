package quota

import (
	"cmp"
	"slices"
	"time"

	"berth.dev/berth/core/checkpoint"
)

// group is pods that are evicted together: one that its gang can spare, or all of a gang.
type group struct {
	pods   []*Holder
	whole  bool // a gang ends
	leaves bool // all of it ends anyway
	spared bool // it goes after all others
}

// compare orders groups by who goes first: those that end anyway, those that are not spared, the lowest
// priority, idle ones, those that their gang can spare, those that save their work, those that lose least of it, the youngest.
func (g *group) compare(o *group, now time.Time) int {
	return cmp.Or(
		byBool(o.leaves, g.leaves), byBool(g.spared, o.spared), cmp.Compare(g.priority(), o.priority()), byBool(o.idle(), g.idle()), byBool(g.whole, o.whole),
		byBool(g.unsaved(), o.unsaved()), cmp.Compare(g.lost(now), o.lost(now)), o.pods[0].Start.Compare(g.pods[0].Start), cmp.Compare(g.pods[0].ID, o.pods[0].ID),
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

// saves returns how a pod of the group saves its work: one pod of a gang may save it for all.
func (g *group) saves(h *Holder) checkpoint.Saves {
	out := h.Saves
	for _, o := range g.pods {
		if o.Saves.Last.After(out.Last) {
			out.Last = o.Saves.Last
		}
	}
	return out
}

// unsaved reports whether a pod of the group has run and does not save its work.
func (g *group) unsaved() bool {
	return slices.ContainsFunc(g.pods, func(h *Holder) bool { return !h.Start.IsZero() && !g.saves(h).Any() })
}

// lost is the work, in parts of GPUs times seconds, that the pods may have to do again if they end now.
func (g *group) lost(now time.Time) float64 {
	sum := 0.0
	for _, h := range g.pods {
		sum += float64(h.parts()) / Whole * g.saves(h).Lost(h.Start, now).Seconds()
	}
	return sum
}

// parts are the parts of GPUs that a pod holds.
func (h *Holder) parts() (sum int64) {
	for _, p := range h.Pieces {
		sum += p.Parts
	}
	return sum
}
