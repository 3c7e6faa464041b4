package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// pyTorchJobs is the resource of the jobs that are measured.
var pyTorchJobs = schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "pytorchjobs"} //nolint:gochecknoglobals // a constant

// benchTraining measures one job of many workers, plain pods beside it for scale, and many small jobs at once.
func benchTraining(ctx context.Context, r *report, dir string) error {
	nodes, workers, jobs := r.small(500), r.small(512), r.small(1000)
	one, err := trainingJobs(ctx, filepath.Join(dir, "one"), nodes, trainingLoad{1, workers, 1})
	if err != nil {
		return fmt.Errorf("one job of %d workers: %w", workers, err)
	}
	plain, err := plainPods(ctx, filepath.Join(dir, "plain"), nodes, workers)
	if err != nil {
		return fmt.Errorf("%d plain pods: %w", workers, err)
	}
	many, err := trainingJobs(ctx, filepath.Join(dir, "many"), nodes, trainingLoad{jobs, 4, 1})
	if err != nil {
		return fmt.Errorf("%d jobs: %w", jobs, err)
	}
	const teams = 20
	spread, err := trainingJobs(ctx, filepath.Join(dir, "spread"), nodes, trainingLoad{jobs, 4, teams})
	if err != nil {
		return fmt.Errorf("%d jobs of %d namespaces: %w", jobs, teams, err)
	}
	how := fmt.Sprintf("a PyTorchJob of %d workers with a GPU each on %d nodes of 8; ", workers, nodes)
	r.add(figure{what: "one job, creation to last binding", values: []float64{one.bound}, unit: "s", aim: 6, wall: true, busy: one.busy, how: how + "its pods are a gang"})
	r.add(figure{what: "one job, creation to last Service", values: []float64{one.services}, unit: "s", aim: 8, wall: true, busy: one.busy, how: how + "as a client's watch sees them"})
	r.add(figure{what: "one job, CPU a worker", values: []float64{one.cpu}, unit: "ms", busy: one.busy, how: how + "the whole process, until all run, with their Services"})
	r.add(figure{what: "plain pods, CPU a pod", values: []float64{plain.cpu}, unit: "ms", busy: plain.busy, how: fmt.Sprintf("%d pods with a GPU each, created by 8 clients, until all run", workers)})
	r.add(figure{what: "a worker against a plain pod", values: []float64{one.cpu / plain.cpu}, unit: "times", aim: 2.5, busy: one.busy || plain.busy, how: "the two above"})
	how = fmt.Sprintf("%d PyTorchJobs of 4 workers, created by 8 clients, on %d nodes of 8", jobs, nodes)
	r.add(figure{what: "many jobs, first creation to last pod and Service", values: []float64{many.made}, unit: "s", aim: 60, wall: true, busy: many.busy, how: how + ", all in one namespace; as a client's watch sees them"})
	r.add(figure{what: "many jobs, first creation to last binding", values: []float64{many.bound}, unit: "s", wall: true, busy: many.busy, how: how})
	r.add(figure{what: fmt.Sprintf("many jobs in %d namespaces, first creation to last pod and Service", teams), values: []float64{spread.made}, unit: "s", aim: 60, wall: true, busy: spread.busy, how: how + "; Kubernetes' endpoints controllers compare each pod with each Service of its namespace"})
	r.add(figure{what: fmt.Sprintf("many jobs in %d namespaces, first creation to last binding", teams), values: []float64{spread.bound}, unit: "s", wall: true, busy: spread.busy, how: how})
	r.add(figure{what: "many jobs, writes in a minute of rest", values: []float64{many.writes}, unit: "writes", aim: 0.5, how: "to jobs, pods, Services, and events, while all run, by the API server's own count"})
	r.add(figure{what: "many jobs, writes after a restart", values: []float64{many.again}, unit: "writes", aim: 0.5, how: "to jobs, from the start of the process until it rests, while all run"})
	hand, err := podsByHand(ctx, filepath.Join(dir, "hand"), nodes, jobs*4)
	if err != nil {
		return fmt.Errorf("%d pods by hand: %w", jobs*4, err)
	}
	r.add(figure{what: "memory beside many jobs", values: []float64{many.mb}, unit: "MB", how: how + "; resident memory of the process, a minute after all run"})
	r.add(figure{what: "memory beside pods and Services made by hand", values: []float64{hand.mb}, unit: "MB", how: "as many pods with a GPU each, and a headless Service for each"})
	r.add(figure{what: "what the jobs add to all of berth up", values: []float64{many.mb - hand.mb}, unit: "MB", how: "from the two above: also the jobs in the API server and its database; the part jobs has the controllers alone, for which there is an aim"})
	return benchSuspension(ctx, r, dir)
}

// trained is one run. Times are in seconds, CPU a pod in milliseconds.
type trained struct {
	bound, services, cpu float64 // services is until the last Service
	made                 float64 // until the last pod and Service
	mb                   float64 // resident memory at rest
	writes, again        float64 // in a minute of rest, and to jobs since a restart, as trial.writes counts
	busy                 bool
}

// trainingLoad is jobs of so many workers each, in so many namespaces in turn.
type trainingLoad struct{ jobs, workers, namespaces int }

// namespace is where a job goes.
func (l trainingLoad) namespace(i int) string {
	if l.namespaces == 1 {
		return namespace
	}
	return fmt.Sprintf("team-%d", i%l.namespaces)
}

// pods is how many there are in all, and of Services.
func (l trainingLoad) pods() int { return l.jobs * l.workers }

// create creates the jobs by several clients, whose namespaces are there.
func (l trainingLoad) create(ctx context.Context, client dynamic.NamespaceableResourceInterface) error {
	return each(ctx, l.jobs, creators, func(ctx context.Context, i int) error {
		job := trainingJob(fmt.Sprintf("job-%d", i), l.workers, nil)
		job.SetNamespace(l.namespace(i))
		_, err := client.Namespace(job.GetNamespace()).Create(ctx, job, metav1.CreateOptions{})
		return err
	})
}

// createNamespaces creates the namespaces of the jobs that are not there.
func (l trainingLoad) createNamespaces(ctx context.Context, client kubernetes.Interface) error {
	for i := range l.namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace(i)}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", ns.Name, err)
		}
	}
	return nil
}

// trainingJobs creates jobs at once, and waits until all their pods run and have Services. Many of one namespace are measured at
// rest then, after its watches have ended.
func trainingJobs(ctx context.Context, dir string, nodes int, load trainingLoad) (out trained, err error) {
	t, seen, err := observe(ctx, dir, ours, fmt.Sprintf("scale:%d", nodes), afterStart)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	client, err := connectJobs(t.Kubeconfig)
	if err != nil {
		return out, err
	}
	if err := load.createNamespaces(ctx, t.client); err != nil {
		return out, err
	}
	made, err := watchChildren(ctx, t.client)
	if err != nil {
		return out, err
	}
	used, err := t.span(func(began time.Time) (time.Time, error) {
		if err := load.create(ctx, client); err != nil {
			return began, err
		}
		pod, service, err := made.await(ctx, load.pods(), 5*time.Minute)
		if err != nil {
			return began, err
		}
		out.services, out.made = service.Sub(began).Seconds(), max(pod.Sub(began), service.Sub(began)).Seconds()
		last, err := seen.await(ctx, load.pods(), 5*time.Minute)
		out.bound = last.Sub(began).Seconds()
		if err != nil {
			return last, err
		}
		_, err = seen.awaitRunning(ctx, load.pods())
		return last, err
	})
	made.stop()
	if err != nil {
		return out, err
	}
	out.cpu, out.busy = used.process.Seconds()*1000/float64(load.pods()), used.busy
	if load.jobs > 1 && load.namespaces == 1 {
		err = t.rests(ctx, &out, dir)
	}
	return out, err
}

// connectJobs makes a client of PyTorchJobs without limits.
func connectJobs(kubeconfig string) (dynamic.NamespaceableResourceInterface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return client.Resource(pyTorchJobs), nil
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
		last, err := seen.await(ctx, n, 5*time.Minute)
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

// trainingJob is a PyTorchJob of workers that run for a day, whose pods have the annotations.
func trainingJob(name string, workers int, notes map[string]any) *unstructured.Unstructured {
	container := map[string]any{
		"name": "pytorch", "image": "bench/train:1", "command": []any{"sleep", "infinity"},
		"resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": int64(1)}},
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{"pytorchReplicaSpecs": map[string]any{"Worker": map[string]any{
			"replicas": int64(workers), "template": map[string]any{"metadata": map[string]any{"annotations": notes}, "spec": map[string]any{"containers": []any{container}}},
		}}},
	}}
}
