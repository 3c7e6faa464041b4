package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fractionRuns is how often halves are placed, each on a fresh cluster.
const fractionRuns = 3

// fractionPod asks for a part of one GPU, as "0.5", in KAI's spelling, and for
// CPU and memory of its node.
func fractionPod(name, fraction string, want corev1.ResourceList) *corev1.Pod {
	p := newPod(name, want)
	p.Annotations = map[string]string{annotationFraction: fraction}
	return p
}

// benchFractions places halves of GPUs and looks at what each GPU carries.
func benchFractions(ctx context.Context, r *report, dir string) error {
	nodes, n := r.small(25), r.small(200)
	var took, inUse []float64
	busy := false
	for i := range fractionRuns {
		wall, cards, other, err := fractions(ctx, filepath.Join(dir, strconv.Itoa(i)), nodes, n)
		if err != nil {
			return err
		}
		took, inUse, busy = append(took, wall), append(inUse, float64(cards)), busy || other
	}
	how := fmt.Sprintf("%d pods with %s: \"0.5\" on %d nodes of 8", n, annotationFraction, nodes)
	r.add(figure{what: "Berth, first creation to all running", values: took, unit: "s", aim: 2, wall: true, busy: busy, how: how})
	r.add(figure{
		what: "Berth, GPUs in use", values: inUse, unit: "GPUs", aim: float64((n + 1) / 2),
		how: "the same; by the committed devices of the pods, all of which are counted, and none beyond its size",
	})
	return nil
}

// fractions returns the seconds from the first creation to all running, and how
// many GPUs are in use. The error says when one carries more than it has.
func fractions(ctx context.Context, dir string, nodes, n int) (wall float64, inUse int, busy bool, err error) {
	t, seen, err := observe(ctx, dir, ours, fmt.Sprintf("scale:%d", nodes), afterStart)
	if err != nil {
		return 0, 0, false, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	want := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = fractionPod(fmt.Sprintf("half-%d", i+1), "0.5", want)
	}
	used, err := t.span(func(began time.Time) (time.Time, error) {
		if _, _, err := create(ctx, t.client, pods, creators); err != nil {
			return began, err
		}
		return seen.awaitRunning(ctx, n)
	})
	if err != nil {
		return 0, 0, false, err
	}
	held, err := t.held(ctx)
	if err != nil {
		return 0, 0, false, err
	}
	total := 0
	for uuid, h := range held {
		if total += h.pods; h.milli > 1000 {
			return 0, 0, false, fmt.Errorf("%s carries %d pods with %d milli-GPUs", uuid, h.pods, h.milli)
		}
	}
	if total != n {
		return 0, 0, false, fmt.Errorf("%d pods run, and %d hold a device", n, total)
	}
	return used.wall.Seconds(), len(held), used.busy, nil
}

// carried is what pods hold of one GPU.
type carried struct{ pods, milli int }

// held reads from the API what each GPU carries, by UUID.
func (t *trial) held(ctx context.Context) (map[string]carried, error) {
	list, err := t.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	out := map[string]carried{}
	for i := range list.Items {
		p := &list.Items[i]
		raw, ok := p.Annotations[annotationDevices]
		if !ok {
			continue
		}
		var devices map[string][]struct {
			UUID     string
			MilliGPU int
		}
		if err := json.Unmarshal([]byte(raw), &devices); err != nil {
			return nil, fmt.Errorf("pod %s: annotation %s: %w", p.Name, annotationDevices, err)
		}
		for _, name := range slices.Sorted(maps.Keys(devices)) {
			for _, d := range devices[name] {
				h := out[d.UUID]
				out[d.UUID] = carried{h.pods + 1, h.milli + d.MilliGPU}
			}
		}
	}
	return out, nil
}
