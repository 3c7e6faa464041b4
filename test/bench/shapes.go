package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The gangs whose members need what only filters know are of so many members, and each
// is placed so often, in turn with the others.
const (
	shapeMembers = 64
	shapeRuns    = 3
	rackLabel    = "example.com/rack"
)

// shape is one such need: it edits every member.
type shape struct {
	name string
	edit func(p *corev1.Pod)
}

func shapes() []shape {
	mine := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shape"}}
	port := func(p *corev1.Pod, number int32) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: number, HostPort: number}}
	}
	spread := func(p *corev1.Pod, key string) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: mine}}
	}
	return []shape{
		{"plain", func(*corev1.Pod) {}},
		{"one host port", func(p *corev1.Pod) { port(p, 29500) }},
		{"the host's network and a port", func(p *corev1.Pod) { p.Spec.HostNetwork = true; port(p, 23456) }},
		{"spread over host names", func(p *corev1.Pod) { spread(p, corev1.LabelHostname) }},
		{"spread over zones", func(p *corev1.Pod) { spread(p, corev1.LabelTopologyZone) }},
		{"apart by rack", func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: rackLabel, LabelSelector: mine,
			}}}}
		}},
	}
}

// benchShapes places gangs of every shape on one cluster, one after the other.
func benchShapes(ctx context.Context, r *report, dir string) (err error) {
	racks, n := r.small(100), r.small(shapeMembers)
	fleet, err := rackedFleet(dir, racks)
	if err != nil {
		return err
	}
	t, seen, err := observe(ctx, filepath.Join(dir, "data"), ours, fleet, afterStart)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	took, busy := map[string][]float64{}, map[string]bool{}
	for run := range shapeRuns {
		for k, s := range shapes() {
			used, err := placeShape(ctx, t, seen, &s, fmt.Sprintf("gang-%d-%d", run, k), n)
			if err != nil {
				return fmt.Errorf("a gang, %s: %w", s.name, err)
			}
			took[s.name] = append(took[s.name], used.wall.Seconds())
			busy[s.name] = busy[s.name] || used.busy
		}
	}
	plain := figure{values: took["plain"]}
	for _, s := range shapes() {
		f := figure{
			what: "a gang, " + s.name + ", first creation to last binding", values: took[s.name], unit: "s", wall: true, busy: busy[s.name],
			how: fmt.Sprintf("%d one-GPU members on %d nodes of 8 in %d racks and 4 zones; all members or none", n, 5*racks, racks),
		}
		if s.name != "plain" {
			f.aim = plain.median() + 1.5
		}
		r.add(f)
	}
	return nil
}

// placeShape creates one gang, waits until it is bound, and removes it.
func placeShape(ctx context.Context, t *trial, seen *bindings, s *shape, name string, n int) (span, error) {
	pods := gpuPods(name, n, 1)
	inGang(pods, name, n)
	for _, p := range pods {
		p.Labels = map[string]string{"app": "shape"}
		s.edit(p)
	}
	seen.reset()
	used, err := t.span(func(began time.Time) (time.Time, error) {
		if _, _, err := create(ctx, t.client, pods, creators); err != nil {
			return began, err
		}
		return seen.await(ctx, n, time.Minute)
	})
	if err != nil {
		return used, err
	}
	if err := remove(ctx, t.client, pods); err != nil {
		return used, err
	}
	for {
		list, err := t.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil || len(list.Items) == 0 {
			return used, errors.Join(err, pause(ctx, time.Second))
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return used, err
		}
	}
}

// rackedFleet writes a fleet of racks of five nodes, in four zones.
func rackedFleet(dir string, racks int) (string, error) {
	var b strings.Builder
	b.WriteString("name: racks\nsystem: false\nnodes:\n")
	for i := range racks {
		fmt.Fprintf(&b, "  - name: rack-%d-{n}\n    count: 5\n    zone: us-east-1%c\n    cpu: 192\n    memoryGiB: 2048\n", i+1, 'a'+rune(i%4))
		fmt.Fprintf(&b, "    labels: {%s: \"%d\"}\n    gpus: {product: NVIDIA H100 80GB HBM3, count: 8}\n", rackLabel, i+1)
	}
	path := filepath.Join(dir, "fleet.yaml")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(b.String()), 0o600)
}
