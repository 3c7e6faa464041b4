package training

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/test/soak"
)

const running = "chief-0 Running, worker-0 Running, worker-1 Running"

// TestMovedAndKilledAtAnyWrite evicts a worker of a job, with a controller that is killed at each write in turn, before it is
// carried out and after. All pods are created again each time, and it is not a failure.
func TestMovedAndKilledAtAnyWrite(t *testing.T) {
	soak.Plainly(t)
	life := func(breaks int, done bool) (*testCluster, string) {
		zero := int32(0)
		c := newCluster(t, tfJob(func(o *kubeflow.TFJob) { o.Spec.RunPolicy.BackoffLimit = &zero }))
		c.settle()
		c.set(running)
		c.settle()
		before := c.uidOf("chief-0") + c.uidOf("worker-0") + c.uidOf("worker-1")
		c.breaks, c.done = breaks, done
		if c.breaks > 0 {
			c.breaks += len(c.writes)
		}
		c.set("worker-1 Failed?, worker-0 Failed 1")
		c.settle()
		story := c.state() + "; " + c.job().Annotations[api.AnnotationRestarts] + "; " + c.children()
		for _, name := range []string{"chief-0", "worker-0", "worker-1"} {
			if strings.Contains(before, c.uidOf(name)) {
				t.Errorf("killed at write %d: %s is the same pod", breaks, name)
			}
		}
		c.set(running)
		c.settle()
		return c, story + "; " + c.state() + "; " + c.children()
	}
	whole, want := life(0, false)
	if want != `Created=True, Restarting=True; {"all":{"times":1}}; `+allPods+", "+allServices+"; Created=True, Running=True; pod chief-0 Running, pod worker-0 Running, pod worker-1 Running, "+allServices {
		t.Fatalf("undisturbed: %s", want)
	}
	first := 8 // writes before the eviction
	for n := range len(whole.writes) - first {
		for _, done := range []bool{false, true} {
			if _, got := life(n+1, done); got != want {
				t.Errorf("killed at write %d (%s; carried out: %v):\n%s\nwant\n%s", n+1, whole.writes[first+n], done, got, want)
			}
		}
	}
}

// TestAPodThatIsGoneAtOnce holds that a job moves also if a pod is deleted with no time between, as with its node.
func TestAPodThatIsGoneAtOnce(t *testing.T) {
	c := newCluster(t, tfJob())
	c.settle()
	c.set(running)
	c.settle()
	chief, worker := c.uidOf("chief-0"), types.UID(c.uidOf("worker-1"))
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "ml", "mnist-worker-1"
	if err := c.client.Delete(t.Context(), pod, client.Preconditions{UID: &worker}); err != nil {
		t.Fatal(err)
	}
	c.settle()
	if got := c.uidOf("chief-0"); got == chief || got == "none" {
		t.Errorf("the Chief is %s, as before", got)
	}
	if got := c.children(); got != allPods+", "+allServices {
		t.Errorf("the job has %s", got)
	}
}

// saidOfRestarts returns the events of restarts so far, and drops all others.
func (c *testCluster) saidOfRestarts() (said string) {
	for len(c.told) > 0 {
		if text := <-c.told; strings.Contains(text, "Restarting") {
			said += text
		}
	}
	return said
}

// TestAPodThatIsGoneIsLostAsItWasSeenLast holds that an event says why a pod is gone, also if it was evicted and removed between two passes.
func TestAPodThatIsGoneIsLostAsItWasSeenLast(t *testing.T) {
	c := newCluster(t, tfJob())
	c.settle()
	c.set(running)
	c.settle()
	pod := &corev1.Pod{}
	if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist-worker-1"}, pod); err != nil {
		t.Fatal(err)
	}
	evicted := pod.DeepCopy()
	evicted.Status.Conditions = append(evicted.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
	c.r.ofChild(t.Context(), pod)
	c.r.ofChild(t.Context(), evicted)
	if err := c.client.Delete(t.Context(), pod, client.Preconditions{UID: &pod.UID}); err != nil {
		t.Fatal(err)
	}
	c.settle()
	said := c.saidOfRestarts()
	if !strings.Contains(said, "its pod mnist-worker-1 was evicted from node "+pod.Spec.NodeName+", as by kubectl drain") {
		t.Errorf("it says %q", said)
	}
	if going := c.r.memories[c.job().UID].going; len(going) > 0 {
		t.Errorf("%d pods of earlier passes are remembered", len(going))
	}
}

// TestAFaultyGPUAndKilledAtAnyWrite lets an Xid hit a GPU of a worker, whose program fails of it, with a controller that is killed at each write in
// turn. The job restarts as a whole and has no failure, and an event names the GPU.
func TestAFaultyGPUAndKilledAtAnyWrite(t *testing.T) {
	soak.Plainly(t)
	life := func(breaks int, done bool) (*testCluster, string) {
		zero := int32(0)
		c := newCluster(t, tfJob(func(o *kubeflow.TFJob) { o.Spec.RunPolicy.BackoffLimit = &zero }))
		c.settle()
		c.set(running)
		c.settle()
		c.hold("worker-1", "GPU-7")
		n := &corev1.Node{}
		n.Name, n.UID = "n1", "n1"
		n.Annotations = map[string]string{api.AnnotationInventory: `[{"index":6,"uuid":"GPU-6","healthy":false},{"index":7,"uuid":"GPU-7","healthy":false,"xid":79}]`}
		if err := c.client.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		c.writes = nil
		if breaks > 0 {
			c.breaks, c.done = breaks, done
		}
		c.set("worker-1 Failed 1")
		c.settle()
		return c, c.state() + "; " + c.job().Annotations[api.AnnotationRestarts] + "; " + c.children()
	}
	whole, want := life(0, false)
	if want != `Created=True, Restarting=True; {"all":{"times":1}}; `+allPods+", "+allServices {
		t.Fatalf("undisturbed: %s", want)
	}
	said := whole.saidOfRestarts()
	if strings.Count(said, "GPU 7 (GPU-7) of node n1 to Xid 79") != 1 || !strings.HasPrefix(said, "Warning TFJobRestarting") {
		t.Errorf("it says %q", said)
	}
	for n := range len(whole.writes) {
		for _, done := range []bool{false, true} {
			if _, got := life(n+1, done); got != want {
				t.Errorf("killed at write %d (%s; carried out: %v):\n%s\nwant\n%s", n+1, whole.writes[n], done, got, want)
			}
		}
	}
}

// TestAPodThatProvesItsCheckpoint holds that an event says once that a pod has saved its work, although the pod is gone when the pass is made,
// and although the first pass fails.
func TestAPodThatProvesItsCheckpoint(t *testing.T) {
	for name, fails := range map[string]bool{"at once": false, "after a pass that fails": true} {
		t.Run(name, func(t *testing.T) { provesCheckpoint(t, fails) })
	}
}

func provesCheckpoint(t *testing.T, fails bool) {
	c := newCluster(t, tfJob())
	c.settle()
	c.set(running)
	c.settle()
	pod := &corev1.Pod{}
	if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist-worker-1"}, pod); err != nil {
		t.Fatal(err)
	}
	uid, grace, at := pod.UID, int64(30), metav1.NewTime(c.now.Add(40*time.Second))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Status.Phase = &at, &grace, corev1.PodSucceeded
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "tensorflow", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		FinishedAt: metav1.NewTime(c.now.Add(15 * time.Second)), Message: "berth-checkpoint: 2s",
	}}}}
	for range 2 { // once before it is gone, and once as it goes
		c.r.ofChild(t.Context(), pod)
	}
	gone := &corev1.Pod{}
	gone.Namespace, gone.Name = "ml", pod.Name
	if err := c.client.Delete(t.Context(), gone, client.Preconditions{UID: &uid}); err != nil {
		t.Fatal(err)
	}
	if fails {
		c.breaks = len(c.writes) + 1
		if _, err := c.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ml", Name: "mnist"}}); !errors.Is(err, errBroken) {
			t.Fatalf("the pass that was to fail: %v", err)
		}
	}
	c.settle()
	said := 0
	for len(c.told) > 0 {
		if text := <-c.told; strings.HasPrefix(text, "Normal CheckpointSaved pod mnist-worker-1 has saved its work after it was asked to stop: its checkpoint of 2026-01-02T03:04:18Z proves it") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("said %d times, want once", said)
	}
}

// TestANoticeOfANode holds that a job leaves a node that has a taint of a spot notice.
func TestANoticeOfANode(t *testing.T) {
	c := newCluster(t, tfJob())
	c.settle()
	c.set(running)
	c.settle()
	n := &corev1.Node{}
	n.Name, n.Spec.Taints = "n1", []corev1.Taint{{Key: "aws-node-termination-handler/spot-itn", Effect: corev1.TaintEffectNoSchedule}}
	n.UID = "n1"
	if err := c.client.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	chief := c.uidOf("chief-0")
	c.settle()
	conditions := c.job().Status.Conditions
	last := conditions[len(conditions)-1]
	if want := "which has the taint aws-node-termination-handler/spot-itn, so it will be gone soon"; last.Type != "Restarting" || !strings.Contains(last.Message, want) {
		t.Errorf("%s: %q", last.Type, last.Message)
	}
	if got := c.uidOf("chief-0"); got == chief {
		t.Errorf("the Chief is still there")
	}
}
