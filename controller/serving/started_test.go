package serving

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
)

// startedIn is what a pod says of its start.
func (w *world) startedIn(name string) string {
	w.t.Helper()
	p := &corev1.Pod{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: name}, p); err != nil {
		w.t.Fatal(err)
	}
	return p.Annotations[api.AnnotationStartedIn]
}

// comes has a pod that was there since the beginning be ready after 100 seconds, with a model that took 53.
func (w *world) comes(name string) {
	w.t.Helper()
	at := func(seconds int) metav1.Time { return metav1.NewTime(w.now.Add(time.Duration(seconds) * time.Second)) }
	p := &corev1.Pod{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: name}, p); err != nil {
		w.t.Fatal(err)
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(5)}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(100)}}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "storage-initializer", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(7), FinishedAt: at(60)}}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "kserve-container", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(70)}}}}
	if err := w.client.Status().Update(context.Background(), p); err != nil {
		w.t.Fatal(err)
	}
}

func TestHowLongAReplicaTookToStart(t *testing.T) {
	w := newWorld(t, two, nodes()...)
	w.pass()
	fresh := func(p *corev1.Pod) {
		loading(w.now)(p)
		p.CreationTimestamp = metav1.NewTime(w.now)
	}
	w.pod("p", fresh)
	w.pod("q", fresh)
	w.pass()
	w.comes("p")
	before := testutil.CollectAndCount(startSeconds)
	w.pass()
	if got, want := w.startedIn("p"), "queue 5s, pull 12s, download 53s, load 30s"; got != want {
		t.Errorf("pod p started in %q, want %q", got, want)
	}
	if n := testutil.CollectAndCount(startSeconds); n != 4 || before > 4 {
		t.Errorf("%d phases are counted, want 4", n)
	}
	if n := w.pass(); n != 0 {
		t.Errorf("a pass after it writes %d times", n)
	}
	// A process that has not seen the pod before it was ready does not know whether it was unready in between.
	w.comes("q")
	w.start()
	w.pass()
	if got := w.startedIn("q"); got != "" {
		t.Errorf("a new process says that pod q started in %q", got)
	}
}
