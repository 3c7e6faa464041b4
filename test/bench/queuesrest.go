package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Rest is measured so long that collections of garbage, of which Go makes one every two minutes at least, fall into it, and several times.
const (
	restAfter = 4 * time.Minute // both were filled, one after the other: that leaves garbage, and statuses of queues to write
	restsLong = 2 * time.Minute
	restSpans = 3
)

// benchQueuesRest measures what queues and those that wait in them take while nothing is done: two control planes beside each other in the same
// minutes, so both have the same machine. The other has as many pods of another scheduler, which wait for nothing.
func benchQueuesRest(ctx context.Context, r *report, dir string) error {
	return eachQueued(r, dir, func(s *queued, dir string) error {
		if err := s.rest(ctx, r, dir); err != nil {
			return err
		}
		return r.keep()
	})
}

// atRest is a control plane that is measured, and its cores in each span: of the process, and of its components without the goroutines of the garbage
// collector.
type atRest struct {
	*trial
	files        string
	whole, parts []float64
}

func (s *queued) rest(ctx context.Context, r *report, dir string) (err error) {
	var planes [2]atRest
	pods := s.in("busy", gpuPods("load", s.pods-1, 1))
	for i, kind := range []int{besideForeign, withQueues} {
		own := fmt.Sprintf("%s-%d", dir, i)
		t, _, failed := s.begin(ctx, own, kind, pods)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, t.end()) }()
		planes[i] = atRest{trial: t, files: s.files(r, own, kind) + "-rest"}
	}
	if err := pause(ctx, restAfter); err != nil {
		return err
	}
	for range restSpans {
		if err := both(func(i int) error { return planes[i].measure(ctx) }); err != nil {
			return err
		}
	}
	s.reportRest(r, &planes[0], &planes[1])
	return nil
}

// measure measures one span.
func (a *atRest) measure(ctx context.Context) error {
	if err := a.collect(ctx); err != nil {
		return err
	}
	profile := startProfile(ctx, a.client, fmt.Sprintf("%s-%d", a.files, len(a.whole)))
	still, err := a.still(ctx, restsLong)
	if err != nil {
		return err
	}
	shares, err := profile.shares()
	if err != nil {
		return err
	}
	parts := 0.0
	for _, used := range shares {
		parts += used.Seconds() / (time.Duration(len(profile.taken)) * slice).Seconds()
	}
	a.whole, a.parts = append(a.whole, 100*still.cores()), append(a.parts, 100*parts)
	return nil
}

// reportRest adds the figures of one size.
func (s *queued) reportRest(r *report, without, with *atRest) {
	at := fmt.Sprintf("%d nodes: ", s.nodes)
	apart := func(a, b []float64) (out []float64) {
		for i := range a {
			out = append(out, b[i]-a[i])
		}
		return out
	}
	load := fmt.Sprintf("the same with %d queues in which %d workloads wait instead, in the same minutes", s.queues, s.waiting)
	for _, f := range []figure{
		{what: "components' CPU at rest, no queues", values: without.parts, how: fmt.Sprintf("all components, without the goroutines of the garbage collector, by profile; beside %d pods of another scheduler; spans of %s", s.waiting, restsLong)},
		{what: "what queues and those that wait add to the components at rest", values: apart(without.parts, with.parts), aim: 1, how: load},
		{what: "CPU at rest, no queues", values: without.whole, how: "the whole process"},
		{what: "what queues and those that wait add at rest", values: apart(without.whole, with.whole), aim: 1, how: load},
	} {
		f.what, f.unit = at+f.what, "% of a core"
		f.values = slices.Clone(f.values)
		r.add(f)
	}
}
