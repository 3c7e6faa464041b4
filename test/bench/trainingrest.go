package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rests measures a control plane with jobs at rest, and what it writes when it is started again.
func (t *trial) rests(ctx context.Context, out *trained, dir string) error {
	mb, writes, err := t.minute(ctx)
	if err != nil {
		return err
	}
	out.mb = mb
	for _, n := range writes {
		out.writes += n
	}
	t.seen.stop()
	t.seen = nil
	if _, err := t.down(false); err != nil {
		return err
	}
	fleet := fmt.Sprintf("scale:%d", t.Nodes)
	if t.plane, err = up(dir, fleet, "--scheduler", ours); err != nil {
		return err
	}
	if t.client, err = connect(t.Kubeconfig); err != nil {
		return err
	}
	if err := t.quiet(ctx); err != nil {
		return err
	}
	writes, err = t.writes(ctx)
	for key, n := range writes {
		if strings.HasPrefix(key, "pytorchjobs ") { // the control plane also writes Services
			out.again += n
		}
	}
	return err
}

// podsByHand creates pods with a headless Service each, waits until all run, and measures at rest.
func podsByHand(ctx context.Context, dir string, nodes, n int) (out trained, err error) {
	t, seen, err := observe(ctx, dir, ours, fmt.Sprintf("scale:%d", nodes), afterStart)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	pods := gpuPods("hand", n, 1)
	for _, p := range pods {
		p.Labels = map[string]string{"name": p.Name}
	}
	err = each(ctx, n, creators, func(ctx context.Context, i int) error {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: pods[i].Name}, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: pods[i].Labels, Ports: []corev1.ServicePort{{Name: "train", Port: 23456}},
		}}
		_, err := t.client.CoreV1().Services(namespace).Create(ctx, s, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return out, err
	}
	if _, _, err := create(ctx, t.client, pods, creators); err != nil {
		return out, err
	}
	if _, err := seen.await(ctx, n, 5*time.Minute); err != nil {
		return out, err
	}
	if _, err := seen.awaitRunning(ctx, n); err != nil {
		return out, err
	}
	out.mb, _, err = t.minute(ctx)
	return out, err
}

// saving is how long the programs of benchSuspension take to save their work when they are asked to stop.
const saving = 2 * time.Second

// benchSuspension suspends a job whose programs save their work, until its GPUs are free, and resumes it.
func benchSuspension(ctx context.Context, r *report, dir string) (err error) {
	const workers = 8
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // it only ends what hangs
	defer cancel()
	t, seen, err := observe(ctx, filepath.Join(dir, "suspend"), ours, "scale:2", afterStart)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	all, err := connectJobs(t.Kubeconfig)
	if err != nil {
		return err
	}
	client := all.Namespace(namespace)
	job := trainingJob("saves", workers, map[string]any{"berth.dev/checkpoint": "on-signal", "berth.dev/simulate": fmt.Sprintf("{duration: 24h, stop: %v}", saving)})
	var fresh, free, again time.Duration
	used, err := t.span(func(began time.Time) (time.Time, error) {
		if _, err := client.Create(ctx, job, metav1.CreateOptions{}); err != nil {
			return began, err
		}
		if _, err := seen.awaitRunning(ctx, workers); err != nil {
			return began, err
		}
		fresh = time.Since(began)
		for _, suspend := range []bool{true, false} {
			from := time.Now()
			patch := fmt.Sprintf(`{"spec":{"runPolicy":{"suspend":%t}}}`, suspend)
			if _, err := client.Patch(ctx, "saves", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				return began, err
			}
			want := workers
			if suspend {
				want = 0
			}
			if err := t.awaitPods(ctx, want); err != nil {
				return began, err
			}
			if suspend {
				free = time.Since(from)
			} else {
				again = time.Since(from)
			}
		}
		return time.Now(), nil
	})
	if err != nil {
		return err
	}
	how := fmt.Sprintf("a PyTorchJob of %d workers whose programs take %v to save their work", workers, saving)
	r.add(figure{what: "suspend to GPUs free, beyond the program's own time", values: []float64{(free - saving).Seconds()}, unit: "s", aim: 1, wall: true, busy: used.busy, how: how})
	r.add(figure{what: "resume to running, beyond a fresh start", values: []float64{(again - fresh).Seconds()}, unit: "s", aim: 1, wall: true, busy: used.busy, how: fmt.Sprintf("the same job; a fresh start took %.1f s", fresh.Seconds())})
	return nil
}

// awaitPods waits until so many pods run and there are no others.
func (t *trial) awaitPods(ctx context.Context, n int) error {
	for {
		list, err := t.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		running := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running == n && len(list.Items) == n {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
