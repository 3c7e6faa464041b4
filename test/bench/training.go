package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// pyTorchJobs is the resource of the jobs that are measured.
var pyTorchJobs = schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "pytorchjobs"} //nolint:gochecknoglobals // a constant

// benchTraining measures one job of many workers, plain pods beside it for scale, and many small jobs at once.
func benchTraining(ctx context.Context, r *report, dir string) error {
	nodes, workers, jobs := r.small(500), r.small(512), r.small(1000)
	one, err := trainingJobs(ctx, filepath.Join(dir, "one"), nodes, 1, workers)
	if err != nil {
		return fmt.Errorf("one job of %d workers: %w", workers, err)
	}
	plain, err := plainPods(ctx, filepath.Join(dir, "plain"), nodes, workers)
	if err != nil {
		return fmt.Errorf("%d plain pods: %w", workers, err)
	}
	many, err := trainingJobs(ctx, filepath.Join(dir, "many"), nodes, jobs, 4)
	if err != nil {
		return fmt.Errorf("%d jobs: %w", jobs, err)
	}
	how := fmt.Sprintf("a PyTorchJob of %d workers with a GPU each on %d nodes of 8; ", workers, nodes)
	r.add(figure{what: "one job, creation to last binding", values: []float64{one.bound}, unit: "s", aim: 6, wall: true, busy: one.busy, how: how + "its pods are a gang"})
	r.add(figure{what: "one job, creation to last Service", values: []float64{one.services}, unit: "s", aim: 8, wall: true, busy: one.busy, how: how + "as a client lists them"})
	r.add(figure{what: "one job, CPU a worker", values: []float64{one.cpu}, unit: "ms", busy: one.busy, how: how + "the whole process, until all run, with their Services"})
	r.add(figure{what: "plain pods, CPU a pod", values: []float64{plain.cpu}, unit: "ms", busy: plain.busy, how: fmt.Sprintf("%d pods with a GPU each, created by 8 clients, until all run", workers)})
	r.add(figure{what: "a worker against a plain pod", values: []float64{one.cpu / plain.cpu}, unit: "times", aim: 2.5, busy: one.busy || plain.busy, how: "the two above"})
	how = fmt.Sprintf("%d PyTorchJobs of 4 workers, created by 8 clients, on %d nodes of 8", jobs, nodes)
	r.add(figure{what: "many jobs, first creation to last pod and Service", values: []float64{many.services}, unit: "s", aim: 60, wall: true, busy: many.busy, how: how})
	r.add(figure{what: "many jobs, first creation to last binding", values: []float64{many.bound}, unit: "s", wall: true, busy: many.busy, how: how})
	r.add(figure{what: "many jobs, writes in a minute of rest", values: []float64{float64(many.writes)}, unit: "writes", busy: many.busy, how: "to jobs, pods, and Services, while all run"})
	return nil
}

// trained is one run. Times are in seconds, CPU a pod in milliseconds.
type trained struct {
	bound, services, cpu float64
	writes               int // at rest
	busy                 bool
}

// trainingJobs creates jobs at once, and waits until all their pods run and have Services.
func trainingJobs(ctx context.Context, dir string, nodes, jobs, workers int) (out trained, err error) {
	t, seen, err := observe(ctx, dir, ours, fmt.Sprintf("scale:%d", nodes), afterStart)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	cfg, err := clientcmd.BuildConfigFromFlags("", t.Kubeconfig)
	if err != nil {
		return out, err
	}
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return out, err
	}
	used, err := t.span(func(began time.Time) (time.Time, error) {
		err := each(ctx, jobs, creators, func(ctx context.Context, i int) error {
			_, err := client.Resource(pyTorchJobs).Namespace(namespace).Create(ctx, trainingJob(fmt.Sprintf("job-%d", i), workers), metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return began, err
		}
		for have := 0; have < jobs*workers; {
			list, err := t.client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{LabelSelector: "training.kubeflow.org/job-name"})
			if err != nil {
				return began, err
			}
			if have = len(list.Items); have < jobs*workers {
				if err := pause(ctx, 100*time.Millisecond); err != nil {
					return began, err
				}
			}
		}
		out.services = time.Since(began).Seconds()
		last, err := seen.await(ctx, jobs*workers, 5*time.Minute)
		out.bound = last.Sub(began).Seconds()
		if err != nil {
			return last, err
		}
		_, err = seen.awaitRunning(ctx, jobs*workers)
		return last, err
	})
	if err != nil {
		return out, err
	}
	out.cpu, out.busy = used.process.Seconds()*1000/float64(jobs*workers), used.busy
	if jobs > 1 {
		out.writes, err = t.writesAtRest(ctx, client)
	}
	return out, err
}

// writesAtRest counts the objects of jobs that change in a minute, from when the process rests.
func (t *trial) writesAtRest(ctx context.Context, client dynamic.Interface) (int, error) {
	if err := t.quiet(ctx); err != nil {
		return 0, err
	}
	versions := func() (map[string]string, error) {
		out := map[string]string{}
		for _, resource := range []schema.GroupVersionResource{pyTorchJobs, {Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "services"}} {
			list, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			for i := range list.Items {
				out[resource.Resource+"/"+list.Items[i].GetName()] = list.Items[i].GetResourceVersion()
			}
		}
		return out, nil
	}
	before, err := versions()
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, time.Minute); err != nil {
		return 0, err
	}
	after, err := versions()
	n := 0
	for name, version := range after {
		if before[name] != version {
			n++
		}
	}
	return n, err
}

// plainPods creates pods, and waits until all run.
func plainPods(ctx context.Context, dir string, nodes, n int) (out trained, err error) {
	t, seen, err := observe(ctx, dir, ours, fmt.Sprintf("scale:%d", nodes), afterStart)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	used, err := t.span(func(began time.Time) (time.Time, error) {
		if _, _, err := create(ctx, t.client, gpuPods("plain", n, 1), creators); err != nil {
			return began, err
		}
		last, err := seen.await(ctx, n, time.Minute)
		if err != nil {
			return last, err
		}
		_, err = seen.awaitRunning(ctx, n)
		return last, err
	})
	if err != nil {
		return out, err
	}
	out.cpu, out.busy = used.process.Seconds()*1000/float64(n), used.busy
	return out, nil
}

// trainingJob is a PyTorchJob of workers that run for a day.
func trainingJob(name string, workers int) *unstructured.Unstructured {
	container := map[string]any{
		"name": "pytorch", "image": "bench/train:1", "command": []any{"sleep", "infinity"},
		"resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": int64(1)}},
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{"pytorchReplicaSpecs": map[string]any{"Worker": map[string]any{
			"replicas": int64(workers), "template": map[string]any{"spec": map[string]any{"containers": []any{container}}},
		}}},
	}}
}
