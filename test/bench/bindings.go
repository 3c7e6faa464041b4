package main

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// bindings is what a client's watch has seen of pods that have a node: when it
// first saw each so, and when it first saw each run.
type bindings struct {
	stop context.CancelFunc

	mu             sync.Mutex
	bound, running map[string]time.Time // by name, of which none is in two namespaces
	err            error                // why there is no watch any more
	news           chan struct{}        // something was noted
}

// watchBindings watches from now on. The caller calls stop.
func watchBindings(ctx context.Context, client *kubernetes.Clientset) (*bindings, error) {
	ctx, stop := context.WithCancel(ctx)
	b := &bindings{stop: stop, news: make(chan struct{}, 1)}
	b.reset()
	list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: hasNode, Limit: 1})
	if err != nil {
		stop()
		return nil, err
	}
	w, err := b.open(ctx, client, list.ResourceVersion)
	if err != nil {
		stop()
		return nil, err
	}
	go func() {
		for version := list.ResourceVersion; ; {
			version, err = b.follow(w, version)
			if err == nil { // the API server ends watches that are read slowly: go on there
				w, err = b.open(ctx, client, version)
			}
			if err != nil {
				b.mu.Lock()
				b.err = cmp.Or(b.err, err)
				b.mu.Unlock()
				b.tell()
				return
			}
		}
	}()
	return b, nil
}

// hasNode selects pods that are bound, but for those that each fleet has.
const hasNode = "spec.nodeName!=,metadata.namespace!=gpu-operator,metadata.namespace!=kube-system"

func (b *bindings) open(ctx context.Context, client *kubernetes.Clientset, version string) (watch.Interface, error) {
	return client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{FieldSelector: hasNode, ResourceVersion: version})
}

// follow notes events until the watch ends, and gives the resource version of
// the last.
func (b *bindings) follow(w watch.Interface, version string) (string, error) {
	defer w.Stop()
	for e := range w.ResultChan() {
		now := time.Now()
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			return version, fmt.Errorf("watch of pods: %w", apierrors.FromObject(e.Object))
		}
		version = pod.ResourceVersion
		b.mu.Lock()
		if _, known := b.bound[pod.Name]; !known && e.Type != watch.Deleted {
			b.bound[pod.Name] = now
		}
		if _, known := b.running[pod.Name]; !known && pod.Status.Phase == corev1.PodRunning {
			b.running[pod.Name] = now
		}
		b.mu.Unlock()
		b.tell()
	}
	return version, nil
}

func (b *bindings) tell() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// reset forgets all that was seen.
func (b *bindings) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bound, b.running = map[string]time.Time{}, map[string]time.Time{}
}

// await waits until n pods have been seen bound, and says when the last of
// them was. It gives up after limit without a new one.
func (b *bindings) await(ctx context.Context, n int, limit time.Duration) (time.Time, error) {
	return b.until(ctx, n, limit, func() map[string]time.Time { return b.bound }, "bound")
}

// awaitRunning is await for pods that run, and gives up after a minute.
func (b *bindings) awaitRunning(ctx context.Context, n int) (time.Time, error) {
	return b.until(ctx, n, time.Minute, func() map[string]time.Time { return b.running }, "running")
}

func (b *bindings) until(ctx context.Context, n int, limit time.Duration, of func() map[string]time.Time, what string) (time.Time, error) {
	for {
		b.mu.Lock()
		have, err := len(of()), b.err
		if have >= n {
			last := latest(of())
			b.mu.Unlock()
			return last, nil
		}
		b.mu.Unlock()
		if err != nil {
			return time.Time{}, err
		}
		select {
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		case <-b.news:
		case <-time.After(limit):
			return time.Time{}, fmt.Errorf("%d of %d pods are %s, and none more for %s", have, n, what, limit)
		}
	}
}

// boundAt says when a pod was seen bound.
func (b *bindings) boundAt(name string) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.bound[name]
	return at, ok
}

func latest(at map[string]time.Time) time.Time {
	var last time.Time
	for _, t := range at {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// waits is how long each pod took from the request that created it until it was
// seen bound, in seconds, in the order of pods.
func (b *bindings) waits(pods []*corev1.Pod, created []time.Time) []float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]float64, len(pods))
	for i, p := range pods {
		out[i] = b.bound[p.Name].Sub(created[i]).Seconds()
	}
	return out
}

// settled waits until no pod has come to be bound for a while, and says when
// the last was.
func (b *bindings) settled(ctx context.Context, quiet time.Duration) (time.Time, error) {
	for had := -1; ; {
		b.mu.Lock()
		have, last, err := len(b.bound), latest(b.bound), b.err
		b.mu.Unlock()
		if err != nil || have == had {
			return last, err
		}
		had = have
		if err := pause(ctx, quiet); err != nil {
			return last, err
		}
	}
}
