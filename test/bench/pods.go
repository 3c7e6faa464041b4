package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// benchPods makes pods for every GPU while the stock scheduler is held back,
// lets it go, and measures until all of them are bound and running.
func benchPods(ctx context.Context, r *report, dir string) (err error) {
	n, nodes := r.small(4000), r.small(500)
	t, err := begin(dir, stock, fmt.Sprintf("scale:%d", nodes), true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	if _, _, err := create(ctx, t.client, gpuPods("load", n, 1), creators); err != nil {
		return err
	}
	seen, err := watchBindings(ctx, t.client)
	if err != nil {
		return err
	}
	defer seen.stop()
	if err := pause(ctx, 5*time.Second); err != nil {
		return err
	}
	profile := startProfile(ctx, t.client, dir+"-cpu")
	used, err := t.span(func(began time.Time) (time.Time, error) {
		if err := t.release(); err != nil {
			return began, err
		}
		return seen.awaitRunning(ctx, n)
	})
	if err != nil {
		return err
	}
	shares, err := profile.result()
	if err != nil {
		return err
	}
	how := fmt.Sprintf("%d one-GPU pods on %d nodes of 8, stock scheduler without client limits, from its start to all running", n, nodes)
	ms := func(d time.Duration) []float64 { return []float64{float64(d.Microseconds()) / 1000 / float64(n)} }
	r.add(figure{what: "CPU of the whole machine a pod", values: ms(used.machine), unit: "ms", aim: 8.5, busy: used.busy, how: how})
	r.add(figure{what: "CPU of berth a pod", values: ms(used.process), unit: "ms", how: how})
	r.add(figure{what: "pods bound and running", values: []float64{float64(n) / used.wall.Seconds()}, unit: "a second", wall: true, busy: used.busy, how: how})
	r.add(figure{
		what: "CPU of the fleet a pod", values: ms(shares["fleet"]), unit: "ms", aim: 0.3, busy: used.busy,
		how: "CPU profile of that run, goroutines labeled component=fleet, garbage collection apart",
	})
	return nil
}
