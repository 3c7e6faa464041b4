package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// besideBursts is how many bursts of pods are measured in the same two control planes.
const besideBursts = 5

// benchQueuesBeside measures as benchQueues does, but in two control planes that get their pods at the same time: whatever else slows the
// machine slows both. Each gets several bursts, and what it had of one is deleted before the next.
func benchQueuesBeside(ctx context.Context, r *report, dir string) error {
	return eachQueued(r, dir, func(s *queued, dir string) error { return s.beside(ctx, r, dir) })
}

// eachQueued does something with each size that is asked for, each in its own folder.
func eachQueued(r *report, dir string, do func(s *queued, dir string) error) error {
	for _, size := range []queued{queuedSmall(), queuedLarge()} {
		if size = size.small(r); r.nodes != 0 && r.nodes != size.nodes {
			continue
		}
		if err := do(&size, fmt.Sprintf("%s-%d", dir, size.nodes)); err != nil {
			return fmt.Errorf("%d nodes: %w", size.nodes, err)
		}
	}
	return nil
}

// burdened is a control plane that gets bursts of pods.
type burdened struct {
	*trial
	files string
	pods  []*corev1.Pod // of a burst
	bound int           // before it
	runs  []queueRun
}

// beside measures one size. Where a burst fails, it reports those before.
func (s *queued) beside(ctx context.Context, r *report, dir string) (err error) {
	var planes [2]burdened
	for i, kind := range []int{withoutQueues, withQueues} {
		own, pods := fmt.Sprintf("%s-%d", dir, i), s.in("busy", gpuPods("load", s.pods-1, 1))
		t, bound, failed := s.begin(ctx, own, kind, pods)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, t.end()) }()
		planes[i] = burdened{trial: t, files: s.files(r, own, kind) + "-beside", pods: pods, bound: bound}
	}
	for k := range besideBursts {
		if err = both(func(i int) error { return planes[i].next(ctx) }); err != nil {
			break
		}
		a, b := planes[0].runs[k], planes[1].runs[k]
		fmt.Fprintf(os.Stderr, "  %d nodes, burst %d: %.4g ms of the scheduler a pod without queues, %.4g with; %.4g and %.4g pods a second\n", s.nodes, k+1, a.own, b.own, a.rate, b.rate)
	}
	if n := len(planes[1].runs); n > 0 && len(planes[0].runs) >= n {
		s.reportBeside(r, planes[0].runs[:n], planes[1].runs)
		err = errors.Join(err, r.keep())
	}
	return err
}

// both does something with each of two at the same time.
func both(do func(i int) error) (err error) {
	errs := make(chan error, 2)
	for i := range 2 {
		go func() { errs <- do(i) }()
	}
	return errors.Join(<-errs, <-errs)
}

// next measures one burst, in a control plane that is as it was before the first.
func (b *burdened) next(ctx context.Context) error {
	if len(b.runs) > 0 {
		if err := remove(ctx, b.client, b.pods); err != nil {
			return err
		}
		if err := b.quiet(ctx); err != nil {
			return err
		}
		b.seen.reset()
		b.bound = 0
	}
	one, err := b.burst(ctx, b.pods, b.bound, fmt.Sprintf("%s-%d", b.files, len(b.runs)))
	if err == nil {
		b.runs = append(b.runs, one)
	}
	return err
}

// reportBeside adds the figures of one size.
func (s *queued) reportBeside(r *report, without, with []queueRun) {
	own, rate := func(q queueRun) float64 { return q.own }, func(q queueRun) float64 { return q.rate }
	times := func(value func(queueRun) float64) (out []float64) {
		for i := range with {
			out = append(out, value(with[i])/value(without[i]))
		}
		return out
	}
	at := fmt.Sprintf("%d nodes: ", s.nodes)
	how := fmt.Sprintf("bursts of %d one-GPU pods on %d nodes of 8, beside %d that ask for more GPUs than a node has, while a control plane with queues gets the same pods", s.pods-1, s.nodes, s.waiting)
	load := fmt.Sprintf("the same with %d queues in which %d workloads wait instead", s.queues, s.waiting)
	for _, f := range []figure{
		{what: "scheduler's own CPU a pod, no queues", values: of(without, own), unit: "ms", how: how},
		{what: "scheduler's own CPU a pod, queues", values: of(with, own), unit: "ms", how: load},
		{what: "scheduler's own CPU a pod, with queues against without", values: times(own), unit: "times", aim: 1.05, how: "burst by burst"},
		{what: "pods bound, no queues", values: of(without, rate), unit: "a second", wall: true, how: how},
		{what: "pods bound, queues", values: of(with, rate), unit: "a second", wall: true, least: slices.Min(of(without, rate)), how: load + "; the aim is the least of the bursts without queues"},
	} {
		f.what = at + f.what
		r.add(f)
	}
}
