package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// gangRuns is how often a gang is placed, each on a fresh cluster.
const gangRuns = 3

// benchGang places a gang with Berth, and as many pods without a gang with the
// stock scheduler.
func benchGang(ctx context.Context, r *report, dir string) error {
	nodes, n := r.small(500), r.small(512)
	took, late, busy := map[string][]float64{}, map[string][]float64{}, map[string]bool{}
	for i := range 2 * gangRuns {
		which := []string{stock, ours}[i%2]
		wall, p99, other, err := gang(ctx, filepath.Join(dir, strconv.Itoa(i)), which, nodes, n)
		if err != nil {
			return fmt.Errorf("scheduler %s: %w", which, err)
		}
		took[which], late[which] = append(took[which], wall), append(late[which], p99)
		busy[which] = busy[which] || other
	}
	how := fmt.Sprintf("%d one-GPU pods on %d empty nodes of 8; ", n, nodes)
	for _, which := range []string{stock, ours} {
		f := figure{
			what: "stock, no gang, first creation to last binding", values: took[which], unit: "s", wall: true, busy: busy[which],
			how: how + "for scale; creation by 8 clients is in it",
		}
		p99 := figure{what: "stock, no gang, creation to binding, 99th percentile", values: late[which], unit: "s", wall: true, busy: busy[which], how: "the same"}
		if which == ours {
			f.what, f.aim, f.how = "Berth, one gang, first creation to last binding", 2.5, fmt.Sprintf("%sall in one gang of %s: %d", how, annotationMinCount, n)
			p99.what = "Berth, one gang, creation to binding, 99th percentile"
		}
		r.add(f)
		r.add(p99)
	}
	return nil
}

// gang returns the seconds from the first creation to the last binding, and the
// 99th percentile of those from creation to binding.
func gang(ctx context.Context, dir, which string, nodes, n int) (wall, p99 float64, busy bool, err error) {
	t, seen, err := observe(ctx, dir, which, fmt.Sprintf("scale:%d", nodes), afterStart)
	if err != nil {
		return 0, 0, false, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	pods := gpuPods("member", n, 1)
	if which == ours {
		inGang(pods, "training", n)
	}
	var waits []float64
	used, err := t.span(func(began time.Time) (time.Time, error) {
		at, _, err := create(ctx, t.client, pods, creators)
		if err != nil {
			return began, err
		}
		last, err := seen.await(ctx, len(pods), time.Minute)
		waits = seen.waits(pods, at)
		return last, err
	})
	if err != nil {
		return 0, 0, false, err
	}
	slices.Sort(waits)
	return used.wall.Seconds(), waits[(len(waits)-1)*99/100], used.busy, nil
}

// inGang makes pods members of one gang of at least n.
func inGang(pods []*corev1.Pod, name string, n int) {
	for _, p := range pods {
		p.Annotations = map[string]string{annotationGang: name, annotationMinCount: strconv.Itoa(n)}
	}
}
