package placement

import (
	"math"
	"slices"

	"berth.dev/berth/core/cluster"
)

// Mix counts the requests that have arrived, by shape. Node memory and cliques
// do not count: shapes that differ only in those are one class.
type Mix struct {
	classes []Class
	at      map[cluster.Request]int
	total   float64
}

// NewMix makes a Mix of classes; none is an empty one.
func NewMix(classes ...Class) *Mix {
	m := &Mix{at: map[cluster.Request]int{}}
	for i := range classes {
		m.Add(&classes[i].Request, classes[i].Weight)
	}
	return m
}

// Add counts r weight times.
func (m *Mix) Add(r *cluster.Request, weight float64) {
	c := *r
	c.MemoryBytes, c.OneClique = 0, false
	i, ok := m.at[c]
	if !ok {
		i = len(m.classes)
		m.at[c] = i
		m.classes = append(m.classes, Class{Request: c})
	}
	m.classes[i].Weight += weight
	m.total += weight
}

// Classes returns the classes in the order in which they were first seen. Read it
// only.
func (m *Mix) Classes() []Class { return m.classes }

// Total is the sum of all weights.
func (m *Mix) Total() float64 { return m.total }

// Fade multiplies every weight by keep, so that old arrivals count less than
// new ones, and forgets classes that have come to less than one thousandth of
// an arrival.
func (m *Mix) Fade(keep float64) {
	kept := m.classes[:0]
	m.total = 0
	clear(m.at)
	for _, c := range m.classes {
		if c.Weight *= keep; c.Weight >= 0.001 {
			m.at[c.Request] = len(kept)
			kept = append(kept, c)
			m.total += c.Weight
		}
	}
	m.classes = kept
}

// mostMix bounds the classes that Berth's policy learns, twice for a while: more
// than any trace known has, and little enough that its tables take a millisecond.
const mostMix = 2000

// trim forgets the lightest classes where there are more than twice most, so that
// most are left.
func (m *Mix) trim(most int) {
	if len(m.classes) <= 2*most {
		return
	}
	weights := make([]float64, len(m.classes))
	for i := range m.classes {
		weights[i] = m.classes[i].Weight
	}
	slices.Sort(weights)
	least := weights[len(weights)-most]
	kept := m.classes[:0]
	m.total = 0
	clear(m.at)
	for i, c := range m.classes {
		// Of those that weigh least, the latest are kept: as many as there is room for.
		if room := most - len(kept); c.Weight > least || c.Weight == least && len(m.classes)-i <= room {
			m.at[c.Request] = len(kept)
			kept = append(kept, c)
			m.total += c.Weight
		}
	}
	m.classes = kept
}

// halve is one half to the power of x.
func halve(x float64) float64 { return math.Exp2(-x) }
