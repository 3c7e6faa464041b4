package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"berth.dev/berth/test/machine"
)

// backlog is a size at which both schedulers work off pods that were all there
// when they started.
type backlog struct {
	nodes, pods int
	runs        int     // of each scheduler, in the order stock, berth, berth, stock
	faster      float64 // aim: Berth's pods a second against stock's; 0 is none
	own         float64 // aim: CPU of Berth's scheduler a pod, ms
	machine     float64 // aim: CPU of the whole machine a pod with Berth, ms; 0 is none
}

func backlogs() []backlog {
	return []backlog{
		{nodes: 500, pods: 4000, runs: 2, faster: 1.15, own: 1.0, machine: 8.3},
		{nodes: 1000, pods: 5000, runs: 1, own: 1.3},
		{nodes: 5000, pods: 10000, runs: 1, faster: 1.2, own: 1.6},
	}
}

// drained is one run of one scheduler. Times a pod are in milliseconds.
type drained struct {
	created float64 // pods created a second while no scheduler ran
	rate    float64 // pods bound a second, from the scheduler's release to the last
	machine float64 // CPU of the whole machine a pod over that time
	own     float64 // CPU of the scheduler's goroutines a pod
	server  float64 // the same of the API server's, from the first profile to the last
	busy    bool
}

// benchSchedule measures every size with both schedulers in turn.
func benchSchedule(ctx context.Context, r *report, dir string) error {
	for _, b := range backlogs() {
		if r.nodes != 0 && r.nodes != b.nodes {
			continue
		}
		b.nodes, b.pods = r.small(b.nodes), r.small(b.pods)
		runs := map[string][]drained{}
		for i := range 2 * b.runs {
			which := stock
			if i%4 == 1 || i%4 == 2 {
				which = ours
			}
			one, err := drain(ctx, r, filepath.Join(dir, fmt.Sprintf("%d-%d", b.nodes, i)), which, b)
			if err != nil {
				return fmt.Errorf("%d nodes, scheduler %s: %w", b.nodes, which, err)
			}
			runs[which] = append(runs[which], one)
		}
		b.report(r, runs[stock], runs[ours])
	}
	return nil
}

// drain creates the pods while the scheduler is held back, lets it go, and
// measures until the last is bound.
func drain(ctx context.Context, r *report, dir, which string, b backlog) (d drained, err error) {
	t, err := begin(dir, which, fmt.Sprintf("scale:%d", b.nodes), true)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	pods := gpuPods("load", b.pods, 1)
	_, took, err := create(ctx, t.client, pods, creators)
	if err != nil {
		return d, err
	}
	d.created = float64(len(pods)) / took.Seconds()
	seen, err := watchBindings(ctx, t.client)
	if err != nil {
		return d, err
	}
	defer seen.stop()
	if err := pause(ctx, 5*time.Second); err != nil {
		return d, err
	}
	files := dir + "-cpu"
	if r.profiles != "" {
		files = filepath.Join(r.profiles, fmt.Sprintf("%s-%d", which, b.nodes))
	}
	profile := startProfile(ctx, t.client, files)
	used, err := t.span(func(began time.Time) (time.Time, error) {
		if err := t.release(); err != nil {
			return began, err
		}
		return seen.await(ctx, len(pods), time.Minute)
	})
	if err != nil {
		return d, err
	}
	shares, err := profile.result()
	if err != nil {
		return d, err
	}
	each := func(cpu time.Duration) float64 { return cpu.Seconds() * 1000 / float64(len(pods)) }
	d.rate, d.machine, d.busy = float64(len(pods))/used.wall.Seconds(), each(used.machine), used.busy
	d.own, d.server = each(shares["scheduler"]), each(shares["apiserver"])
	return d, nil
}

// span is what something took.
type span struct {
	wall    time.Duration
	machine time.Duration // CPU of the whole machine
	process time.Duration // CPU of the control plane's process
	busy    bool          // something else used the machine at the time
}

// span measures fn, which is told when it began and says when what it measures
// ended.
func (t *trial) span(fn func(began time.Time) (ended time.Time, err error)) (s span, err error) {
	before, err := machine.ProcessCPU(t.PID)
	if err != nil {
		return s, err
	}
	watch, err := startWatch()
	if err != nil {
		return s, err
	}
	ended, err := fn(watch.began)
	if err != nil {
		return s, err
	}
	after, err := machine.ProcessCPU(t.PID)
	if err != nil {
		return s, err
	}
	s.process = after - before
	_, s.machine, s.busy, err = watch.stop(s.process)
	s.wall = ended.Sub(watch.began)
	return s, err
}

// report adds the figures of one size.
func (b backlog) report(r *report, stocks, berths []drained) {
	how := fmt.Sprintf("%d one-GPU pods on %d nodes of 8, all there when the scheduler starts; from its start to the last binding as a client's watch sees it; %s", b.pods, b.nodes, layout)
	at := fmt.Sprintf("%d nodes: ", b.nodes)
	busy := false
	for _, d := range append(append([]drained(nil), stocks...), berths...) {
		busy = busy || d.busy
	}
	of := func(runs []drained, value func(drained) float64) []float64 {
		out := make([]float64, len(runs))
		for i, d := range runs {
			out[i] = value(d)
		}
		return out
	}
	ratio := func(value func(drained) float64) []float64 {
		return []float64{figure{values: of(berths, value)}.median() / figure{values: of(stocks, value)}.median()}
	}
	rate, machine := func(d drained) float64 { return d.rate }, func(d drained) float64 { return d.machine }
	own, created := func(d drained) float64 { return d.own }, func(d drained) float64 { return d.created }
	server := func(d drained) float64 { return d.server }
	r.add(figure{what: at + "stock, pods bound", values: of(stocks, rate), unit: "a second", wall: true, busy: busy, how: how})
	r.add(figure{what: at + "Berth, pods bound", values: of(berths, rate), unit: "a second", wall: true, busy: busy, how: "the same"})
	r.add(figure{what: at + "Berth's pods a second against stock's", values: ratio(rate), unit: "times", least: b.faster, wall: true, busy: busy, how: "runs in turn: stock, berth, berth, stock"})
	r.add(figure{what: at + "stock, CPU of the whole machine a pod", values: of(stocks, machine), unit: "ms", busy: busy, how: "over that time, client included"})
	r.add(figure{what: at + "Berth, CPU of the whole machine a pod", values: of(berths, machine), unit: "ms", aim: b.machine, busy: busy, how: "the same; the aim at 500 nodes is what stock took there before Berth had a scheduler"})
	r.add(figure{what: at + "Berth's CPU of the whole machine a pod against stock's", values: ratio(machine), unit: "times", aim: 1, busy: busy, how: "from the two above"})
	r.add(figure{what: at + "stock, scheduler's own CPU a pod", values: of(stocks, own), unit: "ms", how: "CPU profile, goroutines labeled component=scheduler, garbage collection apart"})
	r.add(figure{what: at + "Berth, scheduler's own CPU a pod", values: of(berths, own), unit: "ms", aim: b.own, busy: busy, how: "the same"})
	r.add(figure{what: at + "stock, API server's CPU a pod", values: of(stocks, server), unit: "ms", how: "the same profile, component=apiserver"})
	r.add(figure{what: at + "Berth, API server's CPU a pod", values: of(berths, server), unit: "ms", how: "the same"})
	r.add(figure{what: at + "stock, pods created", values: of(stocks, created), unit: "a second", wall: true, busy: busy, how: fmt.Sprintf("%d clients, while the scheduler is held back", creators)})
	r.add(figure{what: at + "Berth, pods created", values: of(berths, created), unit: "a second", wall: true, busy: busy, how: "the same, with Berth's admission policies"})
	r.add(figure{what: at + "Berth's pods created a second against stock's", values: ratio(created), unit: "times", least: 0.97, wall: true, busy: busy, how: "from the two above"})
}
