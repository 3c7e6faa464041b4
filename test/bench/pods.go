package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// pods and podNodes are the load: every GPU of the fleet is taken.
const (
	pods     = 4000
	podNodes = 500
)

// benchPods makes all pods while the scheduler is held back, lets it go, and
// measures until all of them are bound and running.
func benchPods(r *report, dir string) error {
	hold := filepath.Join(os.TempDir(), fmt.Sprintf("berth-bench-hold-%d", os.Getpid()))
	if err := os.WriteFile(hold, nil, 0o600); err != nil {
		return err
	}
	defer func() { _ = os.Remove(hold) }() // gone already, if all went well
	p, err := up(dir, fmt.Sprintf("scale:%d", podNodes), "--hold-scheduler", hold)
	if err != nil {
		return err
	}
	defer func() { _, _ = p.down(true) }()
	client, err := connect(p.Kubeconfig)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := create(ctx, client); err != nil {
		return err
	}
	time.Sleep(5 * time.Second)
	before, err := cpu(p.PID)
	if err != nil {
		return err
	}
	watch, err := startWatch()
	if err != nil {
		return err
	}
	profile := make(chan profiled, 1)
	go func() { profile <- takeProfile(ctx, client) }()
	if err := os.Remove(hold); err != nil {
		return fmt.Errorf("let the scheduler go: %w", err)
	}
	if err := allRunning(ctx, client); err != nil {
		return err
	}
	after, err := cpu(p.PID)
	if err != nil {
		return err
	}
	wall, all, busy, err := watch.stop(after - before)
	if err != nil {
		return err
	}
	how := fmt.Sprintf("%d one-GPU pods on %d nodes of 8, stock scheduler without client limits, from its start to all running", pods, podNodes)
	ms := func(d time.Duration) []float64 { return []float64{float64(d.Microseconds()) / 1000 / pods} }
	r.add(figure{what: "CPU of the whole machine a pod", values: ms(all), unit: "ms", aim: 8.5, busy: busy, how: how})
	r.add(figure{what: "CPU of berth a pod", values: ms(after - before), unit: "ms", how: how})
	r.add(figure{what: "pods bound and running", values: []float64{pods / wall.Seconds()}, unit: "a second", wall: true, busy: busy, how: how})
	f := <-profile
	if f.err != nil {
		return f.err
	}
	r.add(figure{
		what: "CPU of the fleet a pod", values: []float64{f.fleet * (after - before).Seconds() * 1000 / pods}, unit: "ms", aim: 0.3, busy: busy,
		how: "its share of a CPU profile of that run (goroutines labelled component=fleet, garbage collection apart)",
	})
	return nil
}

// profiled is the share of the fleet in the CPU profile of a run, 0 to 1.
type profiled struct {
	fleet float64
	err   error
}

// takeProfile profiles the process for ten seconds and asks the Go toolchain
// how much of it carries the fleet's label.
func takeProfile(ctx context.Context, client *kubernetes.Clientset) profiled {
	raw, err := client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", "10").DoRaw(ctx)
	if err != nil {
		return profiled{err: fmt.Errorf("take a CPU profile: %w", err)}
	}
	file := filepath.Join(os.TempDir(), fmt.Sprintf("berth-bench-%d.pprof", os.Getpid()))
	defer func() { _ = os.Remove(file) }()
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return profiled{err: err}
	}
	out, err := exec.Command("go", "tool", "pprof", "-tags", "bin/berth", file).Output()
	if err != nil {
		return profiled{err: fmt.Errorf("read the CPU profile: %w", err)}
	}
	m := regexp.MustCompile(`\(\s*([0-9.]+)%\): fleet`).FindSubmatch(out)
	if m == nil {
		return profiled{err: fmt.Errorf("the CPU profile has no samples of the fleet:\n%s", out)}
	}
	percent, err := strconv.ParseFloat(string(m[1]), 64)
	return profiled{fleet: percent / 100, err: err}
}

// connect makes a client without limits that speaks protobuf.
func connect(kubeconfig string) (*kubernetes.Clientset, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	return kubernetes.NewForConfig(cfg)
}

func create(ctx context.Context, client *kubernetes.Clientset) error {
	one := resource.MustParse("1")
	want := corev1.ResourceList{"nvidia.com/gpu": one, "cpu": one, "memory": resource.MustParse("1Gi")}
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range 8 {
		g.Go(func() error {
			for i := next.Add(1); i <= pods; i = next.Add(1) {
				_, err := client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("load-%d", i)},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{
						Name: "main", Image: "registry.example/train", Command: []string{"sleep", "infinity"},
						Resources: corev1.ResourceRequirements{Requests: want, Limits: want},
					}}},
				}, metav1.CreateOptions{})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// allRunning asks twice a second, of the API server's cache, whether any pod is
// not running.
func allRunning(ctx context.Context, client *kubernetes.Clientset) error {
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		left, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "status.phase!=Running", Limit: 1})
		if err != nil {
			return err
		}
		if len(left.Items) == 0 {
			return nil
		}
	}
	return fmt.Errorf("not all of %d pods run after 10 minutes", pods)
}
