package queue

import (
	"maps"
	"slices"
	"time"
)

// Sample is the run times of one template, of one class, or of all workloads: what RunTimes is made of.
type Sample struct {
	Of   Basis           // TemplateBasis, ClassBasis, or AllBasis
	Name string          // of the template or the class
	Runs []time.Duration // the oldest first
}

// Samples returns what is remembered: of all, of the classes by name, and of those templates of which one has ended last,
// at most so many, the oldest first.
func (r *RunTimes) Samples(most int) []Sample {
	out := []Sample{{Of: AllBasis, Runs: r.all.inOrder(runsOfClass)}}
	for _, name := range slices.Sorted(maps.Keys(r.classes)) {
		out = append(out, Sample{ClassBasis, name, r.classes[name].inOrder(runsOfClass)})
	}
	names := slices.SortedFunc(maps.Keys(r.templates), func(a, b string) int { return r.templates[a].ended - r.templates[b].ended })
	for _, name := range names[max(0, len(names)-most):] {
		out = append(out, Sample{TemplateBasis, name, r.templates[name].inOrder(runsOfTemplate)})
	}
	return out
}

// inOrder returns the runs of a ring of a size, the oldest first.
func (s *sample) inOrder(size int) []time.Duration {
	if len(s.last) < size {
		return slices.Clone(s.last)
	}
	return slices.Concat(s.last[s.next:], s.last[:s.next])
}

// Remembered returns RunTimes that know what Samples returned. Samples of any other basis are left out.
func Remembered(list []Sample) *RunTimes {
	r := NewRunTimes()
	for i := range list {
		s, most := &r.all, runsOfClass
		switch r.serial++; list[i].Of {
		case AllBasis:
		case ClassBasis:
			s = of(r.classes, list[i].Name)
		case TemplateBasis:
			s, most = of(r.templates, list[i].Name), runsOfTemplate
		default:
			continue
		}
		for _, ran := range list[i].Runs {
			s.add(max(ran, 0), most, r.serial)
		}
	}
	for len(r.templates) > mostTemplates {
		r.forget()
	}
	return r
}
