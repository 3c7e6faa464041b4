package cli_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
)

// adasPod is the pod of notebook ada with a UID, on gpu-t4-1 as far as it is on its
// way: 0 has no node, 1 is bound, 2 pulls, 3 runs.
func adasPod(uid string, step int) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ada-0", UID: types.UID(uid), Labels: map[string]string{api.LabelNotebook: "ada"}}}
	p.Spec.Containers = []v1.Container{{Name: "proxy", Image: "p:1"}, {Name: "ada", Image: "x/y:1"}}
	if step > 0 {
		p.Spec.NodeName = "gpu-t4-1"
	}
	if step > 1 {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue}}
	}
	if step > 2 {
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "ada", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
	}
	return p
}

// steps are the lines that a wait has shown, without their times and the first, which
// is of the moment it was made.
func steps(stderr string) []string {
	var out []string
	for line := range strings.Lines(stderr) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "0.0s  "); ok && text != "Starting" {
			out = append(out, text)
		}
	}
	return out
}

// TestNotebookWaitShowsTheStepsOfThePod: bound, pulling and started are shown as they
// come, what the notebook says late is not, and a pod that goes begins again.
func TestNotebookWaitShowsTheStepsOfThePod(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := notebooks(t)
		books, pods := watch.NewFakeWithChanSize(9, false), watch.NewFakeWithChanSize(9, false)
		s.dynamic.PrependWatchReactor("notebooks", func(clienttesting.Action) (bool, watch.Interface, error) { return true, books, nil })
		s.client.(*fake.Clientset).PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) { return true, pods, nil })
		ended := make(chan string, 1)
		go func() {
			_, stderr, _ := s.run("berth", "notebook", "create", "ada", "--wait")
			ended <- stderr
		}()
		waits := told("Waiting", "the only one", "Queued", "waits for 1 nvidia.com/gpu")
		for _, play := range []func(){
			func() { pods.Add(adasPod("a", 0)) },
			func() { books.Modify(book("default", "ada", waits)) },
			func() { pods.Modify(adasPod("a", 1)) },
			func() { books.Modify(book("default", "ada", waits)) }, // late
			func() { pods.Modify(adasPod("a", 2)) },
			func() {
				books.Modify(book("default", "ada", told("Bound", "gpu-t4-1", "ImageTrouble", "no image x/y:1")))
			},
			func() { pods.Modify(adasPod("a", 2)) },
			func() { pods.Delete(adasPod("a", 2)) },
			func() { books.Modify(book("default", "ada", waits)) },
			func() { pods.Add(adasPod("b", 3)) },
			func() { books.Modify(book("default", "ada", told("Bound", "gpu-t4-1", "Ready", "on node gpu-t4-1"))) },
		} {
			synctest.Wait()
			play()
		}
		want := []string{
			"Queued, the only one: waits for 1 nvidia.com/gpu", "Bound: to node gpu-t4-1", "Pulling: image x/y:1, unless it is on the node",
			"ImageTrouble: no image x/y:1", "Queued, the only one: waits for 1 nvidia.com/gpu",
			"Bound: to node gpu-t4-1", "Pulling: image x/y:1, unless it is on the node", "Started: waiting for it to respond", "Ready on gpu-t4-1",
		}
		if diff := cmp.Diff(want, steps(<-ended)); diff != "" {
			t.Errorf("lines differ (-want +got):\n%s", diff)
		}
	})
}

// TestNotebookWaitMissesNoStep: of a notebook that is ready before its pod was heard
// of, the steps are shown all the same.
func TestNotebookWaitMissesNoStep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := notebooks(t)
		if _, err := s.client.CoreV1().Pods("default").Create(context.Background(), adasPod("a", 3), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		books := watch.NewFakeWithChanSize(1, false)
		books.Modify(book("default", "ada", told("Bound", "gpu-t4-1", "Ready", "on node gpu-t4-1")))
		s.dynamic.PrependWatchReactor("notebooks", func(clienttesting.Action) (bool, watch.Interface, error) { return true, books, nil })
		_, stderr, code := s.run("berth", "notebook", "create", "ada", "--wait")
		want := []string{"Bound: to node gpu-t4-1", "Pulling: image x/y:1, unless it is on the node", "Started: waiting for it to respond", "Ready on gpu-t4-1"}
		if diff := cmp.Diff(want, steps(stderr)); diff != "" || code != 0 {
			t.Errorf("exit code %d; lines differ (-want +got):\n%s", code, diff)
		}
	})
}
