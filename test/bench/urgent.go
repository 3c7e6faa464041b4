package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// urgentAfter is when the three urgent pods come, from the first of the backlog.
func urgentAfter() []time.Duration {
	return []time.Duration{2 * time.Second, 5 * time.Second, 8 * time.Second}
}

// benchUrgent creates a backlog as fast as it goes, and three single pods of a
// higher priority while it is worked off.
func benchUrgent(ctx context.Context, r *report, dir string) error {
	nodes, n := r.small(500), r.small(3000)
	for _, which := range []string{stock, ours} {
		waits, busy, err := urgent(ctx, filepath.Join(dir, which), which, nodes, n)
		if err != nil {
			return fmt.Errorf("scheduler %s: %w", which, err)
		}
		f := figure{
			what: which + ", urgent pod from creation to binding", values: waits, unit: "s", each: true, wall: true, busy: busy,
			how: fmt.Sprintf("three one-GPU pods of a higher PriorityClass, 2, 5 and 8 s after the first of %d that are created and bound meanwhile; %d nodes of 8", n, nodes),
		}
		if which == ours {
			f.aim = 0.4
		}
		r.add(f)
	}
	return nil
}

// urgent returns the seconds from creation to binding of each urgent pod.
func urgent(ctx context.Context, dir, which string, nodes, n int) (waits []float64, busy bool, err error) {
	t, err := begin(dir, which, fmt.Sprintf("scale:%d", nodes), false)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}
	if _, err := t.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return nil, false, err
	}
	seen, err := watchBindings(ctx, t.client)
	if err != nil {
		return nil, false, err
	}
	defer seen.stop()
	var pods []*corev1.Pod
	var at []time.Time
	used, err := t.span(func(began time.Time) (time.Time, error) {
		var g errgroup.Group
		g.Go(func() error {
			_, _, err := create(ctx, t.client, gpuPods("backlog", n, 1), creators)
			return err
		})
		for i, after := range urgentAfter() {
			if err := pause(ctx, time.Until(began.Add(after))); err != nil {
				return began, errors.Join(err, g.Wait())
			}
			p := gpuPod(fmt.Sprintf("urgent-%d", i+1), 1)
			p.Spec.PriorityClassName = class.Name
			sent, _, err := create(ctx, t.client, []*corev1.Pod{p}, 1)
			if err != nil {
				return began, errors.Join(err, g.Wait())
			}
			pods, at = append(pods, p), append(at, sent...)
		}
		if err := g.Wait(); err != nil {
			return began, err
		}
		return seen.await(ctx, n+len(pods), time.Minute)
	})
	if err != nil {
		return nil, false, err
	}
	return seen.waits(pods, at), used.busy, nil
}
