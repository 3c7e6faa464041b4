package client

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/kubetest"
)

// TestAMirrorListsOnce reads a cluster again and again while pods come and go.
func TestAMirrorListsOnce(t *testing.T) {
	node := kubetest.Inventory("n", kubetest.A100s("n", 8), "cpu", 96, "memory", 1<<40, "pods", 110, api.ResourceGPU, 8)
	other := kubetest.Inventory("other", kubetest.A100s("other", 8), api.ResourceGPU, 8)
	node.Labels["pool"] = "a"
	client := fake.NewClientset(node, other, kubetest.Pod("plain", "n", "cpu", 1))
	kubetest.OwnCopies(&client.Fake)
	c := &Cluster{Interface: client, Config: &rest.Config{Host: "http://127.0.0.1:1"}, Name: "here"}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	changed, err := c.mirrored(ctx, "pool=a")
	if err != nil {
		t.Fatal(err)
	}
	held := func() (nodes int, held int64) {
		v, err := c.Read(ctx, "pool=a", true)
		if err != nil {
			t.Fatal(err)
		}
		return len(v.Nodes), v.Total.Held
	}
	wait := func(what string, gpus int64) {
		t.Helper()
		for end := time.After(30 * time.Second); ; {
			if nodes, got := held(); nodes == 1 && got == 1000*gpus {
				return
			}
			select {
			case <-changed:
			case <-end:
				t.Fatalf("%s: nothing changes any longer", what)
			}
		}
	}
	wait("no pod has GPUs", 0)
	for i, name := range []string{"a", "b", "c"} {
		if _, err := client.CoreV1().Pods("ns").Create(ctx, kubetest.Pod(name, "n", api.ResourceGPU, 2), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		wait("pod "+name+" has come", 2*int64(i+1))
	}
	if err := client.CoreV1().Pods("ns").Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait("pod b is gone", 4)
	lists := 0
	for _, a := range client.Actions() {
		if a.Matches("list", "pods") {
			lists++
		}
	}
	if lists != 1 {
		t.Errorf("pods are listed %d times", lists)
	}
	if _, err := c.mirrored(ctx, "a b"); err == nil {
		t.Error("a selector that cannot be read is followed")
	}
}

// TestAMirrorOfAServerThatIsAwayIsNotShown has the watches end while the API server does not answer.
func TestAMirrorOfAServerThatIsAwayIsNotShown(t *testing.T) {
	client := fake.NewClientset()
	var away atomic.Bool
	gone := errors.New("connection refused")
	watches := make(chan *watch.FakeWatcher, 100)
	client.PrependReactor("list", "*", func(k8stesting.Action) (bool, runtime.Object, error) { return away.Load(), nil, gone })
	client.PrependWatchReactor("*", func(k8stesting.Action) (bool, watch.Interface, error) {
		if away.Load() {
			return true, nil, gone
		}
		w := watch.NewFake()
		watches <- w
		return true, w, nil
	})
	c := &Cluster{Interface: client, Config: &rest.Config{Host: "http://127.0.0.1:1"}, Name: "here"}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if _, err := c.mirrored(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(ctx, "", false); err != nil {
		t.Fatal(err)
	}
	until := func(what string, done func(error) bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if _, err := c.Read(ctx, "", false); done(err) {
				return
			}
		}
		t.Fatal(what)
	}
	away.Store(true)
	for range 2 { // of nodes and of pods
		(<-watches).Stop()
	}
	until("what the mirror has is shown, though the API server does not answer", func(err error) bool { return errors.Is(err, gone) })
	if _, err := c.Read(ctx, "", false); !errors.Is(err, gone) {
		t.Errorf("after an error what the mirror has is shown: %v", err)
	}
	away.Store(false)
	until("the API server answers again, and nothing is shown", func(err error) bool { return err == nil })
	if _, err := (&Cluster{Interface: failing(gone), Config: c.Config, Name: "here"}).mirrored(ctx, ""); !errors.Is(err, gone) {
		t.Errorf("the API server does not answer from the beginning: %v", err)
	}
}

func failing(err error) *fake.Clientset {
	client := fake.NewClientset(&v1.Node{})
	client.PrependReactor("*", "*", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, err })
	client.PrependWatchReactor("*", func(k8stesting.Action) (bool, watch.Interface, error) { return true, nil, err })
	return client
}
