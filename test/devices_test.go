package test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// The load of TestNoDeviceIsOvercommitted: on lab's eight A100 of 40 GiB, four
// V100 of 16 and two T4 of 15 there is room for 8*4 + 4*1 + 2*1 shares of 9 GiB.
const (
	sharePods  = 200
	shareGiB   = 9
	shareRoom  = 38
	shareKills = 2
)

// TestNoDeviceIsOvercommitted makes 200 share pods at once, more than there is
// room for, kills the process while they are bound, twice, and deletes some of
// those that run: at no moment does the API give more of a GPU than there is, no
// pod is refused by its node, and what fits runs in the end.
//
// KAI-Scheduler issue 2153 reports over-packing at 16 half-GPU pods.
func TestNoDeviceIsOvercommitted(t *testing.T) {
	t.Parallel()
	takeTurn(t)
	dir := filepath.Join(t.TempDir(), "d")
	purgeAtEnd(t, dir)
	pid, client := startPlane(t, dir, "--scheduler", "berth")
	j := newJudge(t, client, nil)

	var makers sync.WaitGroup
	for w := range 8 {
		makers.Go(func() {
			for i := w; i < sharePods; i += 8 {
				makeShare(t, j.api(), fmt.Sprintf("share-%d", i))
			}
		})
	}
	for range shareKills {
		await(t, "some pods run", func() bool { return j.count(running) >= 8 })
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		pid, client = startPlane(t, dir)
		j.use(client)
		free(t, j, 5)
	}
	makers.Wait()
	for i := range sharePods {
		makeShare(t, client, fmt.Sprintf("share-%d", i))
	}
	await(t, "all that fits runs", func() bool { return j.count(running) == shareRoom })
	free(t, j, 20)
	await(t, "what frees is given again", func() bool { return j.count(running) == shareRoom })
	checkHolders(t, client, filepath.Join(dir, "kubeconfig"))
}

// makeShare makes a pod that asks for a share of a GPU, if it is not there. The
// API server may be away.
func makeShare(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	pod := gpuPod(name, 0)
	pod.Annotations = map[string]string{userNote: "user-" + name[len(name)-1:]}
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu-memory": *resource.NewQuantity(shareGiB, resource.DecimalSI)}
	_, _ = client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}) // refused: it is there, or the caller comes again
}

// free deletes n of the pods that hold a device, and waits until the judge has seen
// that they are gone.
func free(t *testing.T, j *judge, n int) {
	t.Helper()
	now, gone := int64(0), map[types.UID]bool{}
	for _, p := range list(t, j.api()) {
		if p.Spec.NodeName == "" || n == 0 {
			continue
		}
		n--
		if err := j.api().CoreV1().Pods("default").Delete(t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
		gone[p.UID] = true
	}
	await(t, "the judge has seen what was deleted", func() bool {
		return j.count(func(p *corev1.Pod) bool { return gone[p.UID] }) == 0
	})
}

func list(t *testing.T, client kubernetes.Interface) []corev1.Pod {
	t.Helper()
	pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// await asks again and again until it is so. Its bound only ends a hang.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); !so(); {
		select {
		case <-ctx.Done():
			t.Fatalf("after %v it is still not so that %s", patience, what)
		case <-tick.C:
		}
	}
}
