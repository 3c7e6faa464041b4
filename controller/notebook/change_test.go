package notebook_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/explain"
)

// rows: NB-25

func TestAChangeOfTheGPUCountIsOneRestart(t *testing.T) {
	w := newWorld(t)
	w.must(w.bare.Create(t.Context(), w.node(2)))
	w.gpus = 2
	w.apply(asking("nb", 1))
	w.settle()
	w.apply(asking("nb", 2))
	w.reconcile()
	if got, want := said(w.get("nb"), "Ready"), "False Restarting: restarting: GPU count 1 to 2"; got != want {
		t.Errorf("Ready is %q, want %q", got, want)
	}
	w.settle()
	if got := reason(w.get("nb")); got != explain.Ready || len(w.born) != 2 {
		t.Errorf("Ready's reason is %s after %d pods, want Ready after 2", got, len(w.born))
	}
	event := "Normal Restarting: restarting: GPU count 1 to 2"
	if got := w.told("nb"); !slices.Contains(got, event) {
		t.Errorf("events are %q, want %q among them", got, event)
	}
}

func TestAChangeThatHasNoRoomStopsNothing(t *testing.T) {
	w := newWorld(t)
	w.must(w.bare.Create(t.Context(), w.node(2)))
	w.gpus = 2
	w.apply(asking("nb", 1))
	w.apply(asking("other", 1))
	w.settle()
	w.apply(asking("nb", 2))
	w.settle()
	if got := reason(w.get("nb")); got != explain.Ready || len(w.born) != 2 {
		t.Errorf("Ready's reason is %s after %d pods, want Ready after the 2 of before", got, len(w.born))
	}
	want := "False Waits: n1; change waits: no node has 2 nvidia.com/gpu for it (nodes: 1 too few GPUs free)"
	if got := said(w.get("nb"), "GPUQueued"); got != want {
		t.Errorf("GPUQueued is %q, want %q", got, want)
	}
	if got := w.get("nb").Status.GPUs; got != "1" {
		t.Errorf("GPUS is %q while a change to 2 waits, want the 1 that it holds", got)
	}
	if got := w.told("nb"); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "Warning ChangeWaits: ") }) {
		t.Errorf("events are %q, want ChangeWaits among them", got)
	}
	w.must(w.bare.Delete(t.Context(), w.get("other")))
	w.must(w.bare.Delete(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}}))
	w.must(w.bare.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other-0"}}))
	w.now = w.now.Add(time.Minute)
	w.settle()
	if got := said(w.get("nb"), "GPUQueued"); got != "False Bound: n1" || len(w.born) != 3 {
		t.Errorf("with room, GPUQueued is %q after %d pods, want it bound after 3", got, len(w.born))
	}
	if got := w.get("nb").Status.GPUs; got != "2" {
		t.Errorf("after the change GPUS is %q, want 2", got)
	}
}

func TestAChangeThatAQuotaForbidsStopsNothing(t *testing.T) {
	w := newWorld(t)
	two := corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("2")}
	w.must(w.bare.Create(t.Context(), w.node(8)))
	w.must(w.bare.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q"}, Status: corev1.ResourceQuotaStatus{Hard: two, Used: two},
	}))
	w.apply(asking("nb", 1))
	w.settle()
	w.apply(asking("nb", 2))
	w.settle()
	want := "False Waits: n1; change waits: quota q allows 2 of requests.nvidia.com/gpu, 2 are used, and it would take 1 more"
	if got := said(w.get("nb"), "GPUQueued"); got != want || reason(w.get("nb")) != explain.Ready {
		t.Errorf("GPUQueued is %q and Ready %s, want %q and Ready", got, reason(w.get("nb")), want)
	}
}

func TestAnInvalidChangeStopsNothing(t *testing.T) {
	w := newWorld(t)
	w.apply(asking("nb", 1))
	w.settle()
	w.apply(notebookOf("nb", `{"containers":[]}`))
	w.settle()
	want := "False Waits: n1; change waits: spec.template.spec has no containers; a notebook needs one, with a name and an image"
	if got := said(w.get("nb"), "GPUQueued"); got != want || reason(w.get("nb")) != explain.Ready {
		t.Errorf("GPUQueued is %q and Ready %s, want %q and Ready", got, reason(w.get("nb")), want)
	}
	nb := notebookOf("nb", `{"containers":[]}`)
	nb.Annotations = map[string]string{api.AnnotationStopped: ""}
	w.apply(nb)
	w.settle()
	if got := reason(w.get("nb")); got != explain.Stopped {
		t.Errorf("stopped while it is invalid, Ready's reason is %s", got)
	}
}
