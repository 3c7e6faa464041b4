package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The load is in one namespace, created by so many clients at once.
const (
	namespace = "default"
	creators  = 8
)

// newPod makes a pod of one container that runs until it is deleted, and asks
// for so much of each resource.
func newPod(name string, want corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "registry.example/train", Command: []string{"sleep", "infinity"},
			Resources: corev1.ResourceRequirements{Requests: want, Limits: want},
		}}},
	}
}

// gpuPod asks for whole GPUs, and a core and a GiB.
func gpuPod(name string, gpus int) *corev1.Pod {
	return newPod(name, corev1.ResourceList{
		"nvidia.com/gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI),
		"cpu":            resource.MustParse("1"), "memory": resource.MustParse("1Gi"),
	})
}

// gpuPods makes n of them, prefix-1 and on.
func gpuPods(prefix string, n, gpus int) []*corev1.Pod {
	out := make([]*corev1.Pod, n)
	for i := range out {
		out[i] = gpuPod(fmt.Sprintf("%s-%d", prefix, i+1), gpus)
	}
	return out
}

// create creates pods, by several clients at once or by one, which keeps their
// order. at is when the request for each was sent, took how long all of it took.
func create(ctx context.Context, client *kubernetes.Clientset, pods []*corev1.Pod, clients int) (at []time.Time, took time.Duration, err error) {
	at = make([]time.Time, len(pods))
	began := time.Now()
	err = each(ctx, len(pods), clients, func(ctx context.Context, i int) error {
		at[i] = time.Now()
		if _, err := client.CoreV1().Pods(namespace).Create(ctx, pods[i], metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create pod %s, number %d of %d: %w", pods[i].Name, i+1, len(pods), err)
		}
		return nil
	})
	return at, time.Since(began), err
}

// remove deletes pods at once, without the time to end gracefully.
func remove(ctx context.Context, client *kubernetes.Clientset, pods []*corev1.Pod) error {
	return each(ctx, len(pods), creators, func(ctx context.Context, i int) error {
		err := client.CoreV1().Pods(namespace).Delete(ctx, pods[i].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		if err != nil {
			return fmt.Errorf("delete pod %s: %w", pods[i].Name, err)
		}
		return nil
	})
}

// each calls fn for 0 to n-1, in this order where there is one client, and so
// many at once. The first error ends it.
func each(ctx context.Context, n, clients int, fn func(ctx context.Context, i int) error) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range clients {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := fn(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
