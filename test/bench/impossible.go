package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// restFor is how long CPU is measured.
	restFor = 30 * time.Second
	// quietShare is the share of a core below which things are quiet.
	quietShare = 0.3
)

// benchImpossible fills a cluster, measures the process at rest and while a pod
// ends each second, and measures both again beside a gang that no cluster of
// this size holds and a backlog that waits for GPUs.
func benchImpossible(ctx context.Context, r *report, dir string) (err error) {
	nodes, waiting := r.small(500), r.small(10000)
	members := max(r.small(512), nodes+1) // each takes a node
	t, seen, err := observe(ctx, dir, ours, fmt.Sprintf("scale:%d", nodes), 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	filler := gpuPods("fill", 8*nodes, 1)
	if _, _, err := create(ctx, t.client, filler, creators); err != nil {
		return err
	}
	if _, err := seen.awaitRunning(ctx, len(filler)); err != nil {
		return err
	}
	ender := &ender{t: t, running: filler}
	alone, err := t.atRest(ctx, ender)
	if err != nil {
		return err
	}
	gang := gpuPods("gang", members, 8)
	inGang(gang, "impossible", members)
	backlog := append(gpuPods("wide", waiting/2, 8), gpuPods("narrow", waiting-waiting/2, 1)...)
	if _, _, err := create(ctx, t.client, append(gang, backlog...), creators); err != nil {
		return err
	}
	beside, err := t.atRest(ctx, ender)
	if err != nil {
		return err
	}
	if _, ok := seen.boundAt(gang[0].Name); ok {
		return fmt.Errorf("a member of a gang that cannot fit was bound")
	}
	how := fmt.Sprintf("%d nodes of 8, all GPUs taken; over %s", nodes, restFor)
	load := fmt.Sprintf("a gang of %d pods of 8 GPUs, %d single pods of 8 GPUs and %d of one", members, waiting/2, waiting-waiting/2)
	share := func(v float64) []float64 { return []float64{100 * v} }
	r.add(figure{what: "CPU at rest, nothing waits", values: share(alone.rest), unit: "% of a core", how: how})
	r.add(figure{what: "CPU at rest, the impossible waits", values: share(beside.rest), unit: "% of a core", how: "the same beside " + load})
	r.add(figure{what: "what the impossible adds at rest", values: share(beside.rest - alone.rest), unit: "% of a core", aim: 5, busy: alone.busy || beside.busy, how: "from the two above"})
	r.add(figure{what: "CPU with one pod ended and one created a second, nothing else waits", values: share(alone.ending), unit: "% of a core", how: how})
	r.add(figure{what: "the same, the impossible waits", values: share(beside.ending), unit: "% of a core", how: "one of the waiting one-GPU pods takes the place of each that ends"})
	r.add(figure{what: "what the impossible adds with one pod ending a second", values: share(beside.ending - alone.ending), unit: "% of a core", aim: 5, busy: alone.busy || beside.busy, how: "from the two above"})
	return nil
}

// resting is the CPU of the control plane's process, in cores.
type resting struct {
	rest, ending float64
	busy         bool
}

// atRest waits until things are quiet, and measures at rest and while pods end.
func (t *trial) atRest(ctx context.Context, e *ender) (out resting, err error) {
	if err := t.quiet(ctx); err != nil {
		return out, err
	}
	still, err := t.still(ctx, restFor)
	if err != nil {
		return out, err
	}
	moving, err := t.span(func(began time.Time) (time.Time, error) { return began.Add(restFor), e.end(ctx, restFor) })
	return resting{still.cores(), moving.cores(), still.busy || moving.busy}, err
}

// still measures for d while nothing is done.
func (t *trial) still(ctx context.Context, d time.Duration) (span, error) {
	return t.span(func(began time.Time) (time.Time, error) { return began.Add(d), pause(ctx, d) })
}

// cores is how many cores the process used on average.
func (s span) cores() float64 { return s.process.Seconds() / s.wall.Seconds() }

// quiet waits until the process has used little CPU for 15 seconds. After five
// minutes it is measured as it is.
func (t *trial) quiet(ctx context.Context) error {
	const look = 5 * time.Second
	for below, end := 0, time.Now().Add(5*time.Minute); below < 3 && time.Now().Before(end); {
		s, err := t.still(ctx, look)
		if err != nil {
			return err
		}
		if below++; s.process.Seconds() > quietShare*look.Seconds() {
			below = 0
		}
	}
	return nil
}

// ender ends running pods.
type ender struct {
	t       *trial
	running []*corev1.Pod // not ended yet
	made    int
}

// end ends a pod and creates one like it each second.
func (e *ender) end(ctx context.Context, d time.Duration) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end) && len(e.running) > 0; e.running = e.running[1:] {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if err := remove(ctx, e.t.client, e.running[:1]); err != nil {
			return err
		}
		e.made++
		if _, _, err := create(ctx, e.t.client, []*corev1.Pod{gpuPod(fmt.Sprintf("next-%d", e.made), 1)}, 1); err != nil {
			return err
		}
	}
	return nil
}
