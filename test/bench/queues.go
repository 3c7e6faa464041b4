package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// queued is a size at which pods are placed with queues and without.
type queued struct {
	nodes, pods     int
	queues, waiting int // queues, and workloads that wait for quota meanwhile
	rounds          int // of runs with queues and without, in turn; where there are several, also some of each other kind
}

// The sizes.
func queuedSmall() queued {
	return queued{nodes: 500, pods: 4000, queues: 1000, waiting: 10000, rounds: 5}
}

func queuedLarge() queued {
	return queued{nodes: 5000, pods: 10000, queues: 1000, waiting: 10000, rounds: 5}
}

// The kinds of runs.
const (
	withoutQueues = iota // beside as many pods that wait, for more GPUs than a node has
	withQueues           // beside pods that wait for quota
	besideForeign        // without queues, beside as many pods of another scheduler: objects that cost the scheduler nothing but memory
	besideNone           // without queues, and without others
	besideGated          // without queues, beside as many pods with a scheduling gate, as Kueue has them
	kinds
)

var kindNames = [kinds]string{"without queues", "with queues", "beside pods of another scheduler", "alone", "beside gated pods"}

// queueRun is one run. Times a pod are in milliseconds.
type queueRun struct {
	own, rate float64
	fill      time.Duration
	busy      bool
}

// benchQueues measures what queues cost: the scheduler's CPU for each pod with a thousand
// queues and ten thousand workloads that wait in them, against the same pods, which name queues that are not there, beside as many
// that wait for GPUs. It also prints them alone, beside as many of another scheduler, and beside as many with a scheduling
// gate.
func benchQueues(size queued) func(ctx context.Context, r *report, dir string) error {
	return func(ctx context.Context, r *report, dir string) error {
		size := size.small(r)
		runs, err := size.measure(ctx, r, dir)
		if len(runs[withoutQueues]) > 0 && len(runs[withQueues]) > 0 {
			size.report(r, runs)
			err = errors.Join(err, r.keep()) // also of a part that was interrupted
		}
		return err
	}
}

// small is a size that may only try a part out.
func (s queued) small(r *report) queued {
	s.nodes, s.pods, s.queues, s.waiting = r.small(s.nodes), r.small(s.pods), r.small(s.queues), r.small(s.waiting)
	return s
}

// measure does the runs of one size, and returns those that it has where one fails.
func (s *queued) measure(ctx context.Context, r *report, dir string) (runs *[kinds][]queueRun, err error) {
	runs = &[kinds][]queueRun{}
	var order []int
	for i := range s.rounds {
		order = append(order, []int{withoutQueues, withQueues, withoutQueues}[i%2:][:2]...) // each first in turn
	}
	if s.rounds > 1 {
		order = append(order, besideForeign, besideForeign, besideNone, besideGated)
	}
	for i, kind := range order {
		one, err := s.run(ctx, r, filepath.Join(dir, fmt.Sprintf("%d-%d", s.nodes, i)), kind)
		if err != nil {
			return runs, fmt.Errorf("%d nodes, run %d, %s: %w", s.nodes, i+1, kindNames[kind], err)
		}
		fmt.Fprintf(os.Stderr, "  %d nodes, run %d, %s: %.4g ms of the scheduler a pod, %.4g pods a second; %s to fill\n",
			s.nodes, i+1, kindNames[kind], one.own, one.rate, one.fill.Round(time.Second))
		runs[kind] = append(runs[kind], one)
	}
	return runs, nil
}

// run creates pods while the scheduler runs, and measures until the last is bound.
func (s *queued) run(ctx context.Context, r *report, dir string, kind int) (out queueRun, err error) {
	pods, start := s.in("busy", gpuPods("load", s.pods-1, 1)), time.Now()
	t, before, err := s.begin(ctx, dir, kind, pods)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	fill := time.Since(start)
	out, err = t.burst(ctx, pods, before, s.files(r, dir, kind))
	out.fill = fill
	return out, err
}

// burst has the control plane place pods that come at once, beside so many that were seen bound before. Its CPU profiles go to
// files.
func (t *trial) burst(ctx context.Context, pods []*corev1.Pod, before int, files string) (out queueRun, err error) {
	if err := t.collect(ctx); err != nil {
		return out, err
	}
	profile := startProfile(ctx, t.client, files)
	used, err := t.span(func(began time.Time) (time.Time, error) {
		if _, _, err := create(ctx, t.client, pods, creators); err != nil {
			return began, err
		}
		return t.seen.await(ctx, len(pods)+before, time.Minute)
	})
	if err != nil {
		return out, err
	}
	shares, err := profile.result()
	if err != nil {
		return out, err
	}
	out.own = shares["scheduler"].Seconds() * 1000 / float64(len(pods))
	out.rate, out.busy = float64(len(pods))/used.wall.Seconds(), used.busy
	return out, nil
}

// files is where CPU profiles of a control plane go.
func (s *queued) files(r *report, dir string, kind int) string {
	if r.profiles == "" {
		return dir + "-cpu"
	}
	return filepath.Join(r.profiles, fmt.Sprintf("queues-%d-%d", kind, s.nodes))
}

// begin starts a control plane with what waits in it, and room for pods. It returns when nothing is left to do, and how many were bound. The
// caller ends it.
func (s *queued) begin(ctx context.Context, dir string, kind int, pods []*corev1.Pod) (t *trial, bound int, err error) {
	if t, _, err = observe(ctx, dir, ours, fmt.Sprintf("scale:%d", s.nodes), afterStart); err != nil {
		return nil, 0, err
	}
	if bound, err = s.wait(ctx, t, kind, pods); err == nil {
		err = t.quiet(ctx)
	}
	if err != nil {
		return nil, 0, errors.Join(err, t.end())
	}
	return t, bound, nil
}

// wait creates what waits, and returns how many pods were bound.
func (s *queued) wait(ctx context.Context, t *trial, kind int, pods []*corev1.Pod) (bound int, err error) {
	switch kind {
	case withQueues:
		return 1, s.fill(ctx, t, pods)
	case besideForeign, besideGated:
		others := s.in("full", gpuPods("wait", s.waiting, 1))
		for _, pod := range others {
			if kind == besideGated {
				pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "berth.dev/bench"}}
			} else {
				pod.Spec.SchedulerName = "another"
			}
		}
		_, _, err = create(ctx, t.client, others, creators)
	case withoutQueues:
		_, _, err = create(ctx, t.client, s.in("full", gpuPods("wait", s.waiting, 9)), creators)
	}
	return 0, err
}

// half is how many of the queues have room for pods, and as many have none.
func (s *queued) half() int { return max(1, s.queues/2) }

// in has pods name queues of a tree in turn. They do so in every run: what is compared is the same pods.
func (s *queued) in(tree string, pods []*corev1.Pod) []*corev1.Pod {
	for i, pod := range pods {
		pod.Labels = map[string]string{"berth.dev/queue": fmt.Sprintf("%s-%d", tree, i%s.half())}
	}
	return pods
}

// collect has the control plane collect its garbage, as package testing does before a benchmark: how much of a collection falls into a
// measurement must not depend on what was done before it.
func (t *trial) collect(ctx context.Context) error {
	if _, err := t.client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(ctx); err != nil {
		return fmt.Errorf("collect garbage: %w", err)
	}
	return nil
}

// fill creates queues with room for the pods, and workloads that wait in them.
func (s *queued) fill(ctx context.Context, t *trial, pods []*corev1.Pod) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", t.Kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	half := s.half()
	nominal := max(1, (len(pods)+half-1)/half)
	objects := client.Resource(schema.GroupVersionResource{Group: "berth.dev", Version: "v1alpha1", Resource: "queues"})
	for name, gpus := range map[string]int{"busy": nominal * half, "full": 1} {
		if _, err := objects.Create(ctx, queueObject(name, "", gpus), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create queue %s: %w", name, err)
		}
	}
	err = each(ctx, half, creators, func(ctx context.Context, i int) error {
		for tree, gpus := range map[string]int{"busy": nominal, "full": 0} {
			q := queueObject(fmt.Sprintf("%s-%d", tree, i), tree, gpus)
			if _, err := objects.Create(ctx, q, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create queue %s: %w", q.GetName(), err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	waiting := s.in("full", gpuPods("wait", s.waiting+1, 1)) // the first of them takes all that its queues have
	if _, _, err = create(ctx, t.client, waiting[:1], 1); err != nil {
		return err
	}
	if _, err := t.seen.await(ctx, 1, time.Minute); err != nil {
		return err
	}
	_, _, err = create(ctx, t.client, waiting[1:], creators)
	return err
}

// queueObject is a Queue that pods of every namespace may name.
func queueObject(name, parent string, gpus int) *unstructured.Unstructured {
	spec := map[string]any{
		"quotas": []any{map[string]any{"gpus": "All", "nominal": gpus}}, "namespaces": map[string]any{"labeledPods": []any{"*"}},
	}
	if parent != "" {
		spec["parent"] = parent
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "berth.dev/v1alpha1", "kind": "Queue", "metadata": map[string]any{"name": name}, "spec": spec}}
}

// report adds the figures of one size.
func (s *queued) report(r *report, runs *[kinds][]queueRun) {
	without, with := runs[withoutQueues], runs[withQueues]
	at := fmt.Sprintf("%d nodes: ", s.nodes)
	how := fmt.Sprintf("%d one-GPU pods on %d nodes of 8, created while the scheduler runs, beside %d that ask for more GPUs than a node has; runs with queues and without in turn", s.pods, s.nodes, s.waiting)
	load := fmt.Sprintf("the same with %d queues in which %d workloads wait instead", s.queues, s.waiting)
	busy := false
	for _, one := range slices.Concat(runs[:]...) {
		busy = busy || one.busy
	}
	own, rate := func(q queueRun) float64 { return q.own }, func(q queueRun) float64 { return q.rate }
	r.add(figure{what: at + "scheduler's own CPU a pod, no queues", values: of(without, own), unit: "ms", how: how})
	r.add(figure{what: at + "scheduler's own CPU a pod, queues", values: of(with, own), unit: "ms", how: load})
	r.add(figure{what: at + "scheduler's own CPU a pod, with queues against without", values: []float64{median(with, own) / median(without, own)}, unit: "times", aim: 1.05, busy: busy, how: "medians of the two above"})
	r.add(figure{what: at + "pods bound, no queues", values: of(without, rate), unit: "a second", wall: true, busy: busy, how: how})
	r.add(figure{what: at + "pods bound, queues", values: of(with, rate), unit: "a second", least: slices.Min(of(without, rate)), wall: true, busy: busy, how: load + "; the aim is the least of the runs without queues"})
	others := [kinds]string{
		besideForeign: fmt.Sprintf("the same beside %d pods of another scheduler, which wait for nothing", s.waiting),
		besideNone:    "the same on a control plane with fewer objects",
		besideGated:   fmt.Sprintf("the same beside %d pods with a scheduling gate", s.waiting),
	}
	for kind, how := range others {
		if how != "" && len(runs[kind]) > 0 {
			r.add(figure{what: at + "scheduler's own CPU a pod, no queues, " + kindNames[kind], values: of(runs[kind], own), unit: "ms", how: how})
			r.add(figure{what: at + "pods bound, no queues, " + kindNames[kind], values: of(runs[kind], rate), unit: "a second", wall: true, busy: busy, how: how})
		}
	}
}

// of is one value of each run.
func of(runs []queueRun, value func(queueRun) float64) (out []float64) {
	for _, one := range runs {
		out = append(out, value(one))
	}
	return out
}

// median is that of one value of runs.
func median(runs []queueRun, value func(queueRun) float64) float64 {
	return figure{values: of(runs, value)}.median()
}
