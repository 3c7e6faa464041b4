package test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"berth.dev/berth/test/soak"
)

// The control plane is killed so often under load, and each time after so many
// answers at least.
var crashes = soak.Pick(5, 20)

const answers = 20

// fate is what is known of an object.
type fate int

const (
	unknown fate = iota // a request about it had no answer when the process died
	created
	deleted
)

// ledger is what the API server has acknowledged, by kind/name.
type ledger struct {
	mu    sync.Mutex
	fates map[string]fate
}

func (l *ledger) set(key string, f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fates[key] = f
}

// answered counts the objects of which the last request had its answer.
func (l *ledger) answered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, f := range l.fates {
		if f != unknown {
			n++
		}
	}
	return n
}

// TestNothingAcknowledgedIsLostToKill9 puts the control plane under load, kills
// it at a random moment and starts it again, five times, in a soak twenty: every
// object whose creation was acknowledged is there, every one whose deletion was is
// not, and no device is held twice.
func TestNothingAcknowledgedIsLostToKill9(t *testing.T) {
	t.Parallel()
	takeTurn(t)
	dir := filepath.Join(t.TempDir(), "d")
	purgeAtEnd(t, dir)
	seed := seedOf(t)
	chance := rand.New(rand.NewPCG(seed, 0))
	known := &ledger{fates: map[string]fate{}}
	for cycle := range crashes {
		pid, client := startPlane(t, dir)
		check(t, cycle, client, known)
		if t.Failed() {
			return
		}
		ctx, stop := context.WithCancel(context.Background())
		var writers sync.WaitGroup
		before := known.answered()
		for w := range 4 {
			writers.Go(func() { load(ctx, client, known, fmt.Sprintf("%d-%d", cycle, w)) })
		}
		time.Sleep(time.Duration(200+chance.IntN(1000)) * time.Millisecond)
		await(t, "requests are answered", func() bool { return known.answered() >= before+answers }) // a slow machine needs longer
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		stop()
		writers.Wait()
	}
	_, client := startPlane(t, dir)
	check(t, crashes, client, known)
	n := map[fate]int{}
	for _, f := range known.fates {
		n[f]++
	}
	t.Logf("%d kills: %d acknowledged creations and %d acknowledged deletions kept, %d requests without an answer", crashes, n[created], n[deleted], n[unknown])
	// At the kill each of the four writers may wait for an answer about one of them.
	if got := n[created] + n[deleted]; got < (answers-4)*crashes {
		t.Errorf("only %d requests were answered in %d cycles: the load was too small to show anything", got, crashes)
	}
}

// startPlane starts or restarts the control plane and returns its process and a
// client without limits.
func startPlane(t *testing.T, dir string, flags ...string) (int, *kubernetes.Clientset) {
	t.Helper()
	cmd := exec.Command(program("berth"), append([]string{"up", "--detach", "-o", "json", "--fleet", "lab", "--dir", dir}, flags...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("berth up: %v", err)
	}
	var r struct {
		PID        int
		Kubeconfig string
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r.PID, client
}

// load makes config maps and GPU pods and removes every third again, until ctx
// ends. What has no answer by then stays unknown.
func load(ctx context.Context, client *kubernetes.Clientset, known *ledger, prefix string) {
	maps, pods := client.CoreV1().ConfigMaps("default"), client.CoreV1().Pods("default")
	now := int64(0)
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("x-%s-%d", prefix, i)
		key := "map/" + name
		known.set(key, unknown)
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			continue
		}
		known.set(key, created)
		if i%3 == 0 {
			known.set(key, unknown)
			if maps.Delete(ctx, name, metav1.DeleteOptions{}) == nil {
				known.set(key, deleted)
			}
		}
		if i%5 != 0 {
			continue
		}
		key = "pod/" + name
		known.set(key, unknown)
		if _, err := pods.Create(ctx, gpuPod(name, 1+i%2), metav1.CreateOptions{}); err != nil {
			continue
		}
		known.set(key, created)
		if i%10 == 0 {
			known.set(key, unknown)
			if pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}) == nil {
				known.set(key, deleted)
			}
		}
	}
}

func gpuPod(name string, gpus int) *corev1.Pod {
	want := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "nvidia/cuda:12.0.0-base-ubuntu22.04",
			Command: []string{"sleep", "infinity"}, Resources: corev1.ResourceRequirements{Limits: want},
		}}},
	}
}

// check compares the cluster with what was acknowledged.
func check(t *testing.T, cycle int, client *kubernetes.Clientset, known *ledger) {
	t.Helper()
	ctx := context.Background()
	maps, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, m := range maps.Items {
		there["map/"+m.Name] = true
	}
	for _, p := range pods.Items {
		there["pod/"+p.Name] = true
	}
	for key, f := range known.fates {
		if f == created && !there[key] {
			t.Errorf("after kill %d: %s was acknowledged and is lost", cycle, key)
		}
		if f == deleted && there[key] {
			t.Errorf("after kill %d: the deletion of %s was acknowledged and is undone", cycle, key)
		}
	}
	holders := map[string]string{}
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodFailed {
			t.Errorf("after kill %d: pod %s failed: %s %s", cycle, p.Name, p.Status.Reason, p.Status.Message)
		}
		for _, id := range devices(&p) {
			if other := holders[id]; other != "" {
				t.Errorf("after kill %d: device %s is held by %s and %s", cycle, id, other, p.Name)
			}
			holders[id] = p.Name
		}
	}
}

// devices is what a running pod holds.
func devices(p *corev1.Pod) []string {
	var ids []string
	for _, c := range p.Status.ContainerStatuses {
		for _, r := range c.AllocatedResourcesStatus {
			for _, d := range r.Resources {
				if strings.HasPrefix(string(d.ResourceID), "GPU-") && c.State.Terminated == nil {
					ids = append(ids, string(d.ResourceID))
				}
			}
		}
	}
	return ids
}
