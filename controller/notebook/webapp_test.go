package notebook_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
)

// webApp returns the status and the text that Kubeflow's web app shows for a Notebook
// that is older than ten seconds. It is written after what process_status does in
// components/crud-web-apps/jupyter/backend/apps/common/status.py of kubeflow/kubeflow
// (commit 088d107): stopped, deleted, ready, a waiting container, then the first
// condition with a reason. A condition that makes that program fail is a failure here, too.
func webApp(t *testing.T, nb *kubeflow.Notebook) (status, text string) {
	t.Helper()
	raw, err := json.Marshal(nb.Status)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		ReadyReplicas  int                          `json:"readyReplicas"`
		ContainerState map[string]map[string]string `json:"containerState"`
		Conditions     []map[string]string          `json:"conditions"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	_, stopped := nb.Annotations[api.AnnotationStopped]
	switch {
	case stopped && s.ReadyReplicas == 0:
		return "stopped", ""
	case stopped:
		return "terminating", ""
	case s.ReadyReplicas == 1:
		return "ready", "Running"
	}
	texts := s.Conditions
	if waits := s.ContainerState["waiting"]; waits != nil {
		if waits["reason"] == "PodInitializing" {
			return "waiting", waits["reason"]
		}
		texts = []map[string]string{waits}
	}
	for _, c := range texts {
		reason, found := c["reason"]
		if !found {
			continue
		}
		message, found := c["message"]
		if !found {
			t.Errorf("the web app fails, as there is no message in %v", c)
		}
		return "warning", reason + ": " + message
	}
	return "warning", "no information"
}

// rows: NB-37

// TestKubeflowsWebAppSaysTheTrueReason plays the states of a notebook and reads what
// Kubeflow's web app shows for each.
func TestKubeflowsWebAppSaysTheTrueReason(t *testing.T) {
	waits := func(reason, message string) func(w *world) {
		return func(w *world) {
			w.reconcile()
			w.sets()
			w.schedule()
			pod := w.pod("nb")
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "nb", Image: "x/y:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
			}}
			w.condition(pod, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", "containers with unready status: [nb]")
			w.must(w.bare.Status().Update(t.Context(), pod))
			w.twice()
		}
	}
	settle := func(w *world) { w.settle() }
	for _, c := range []struct {
		name     string
		gpus     int64
		annotate map[string]string
		play     func(w *world)
		status   string
		text     string // begins with
	}{
		{"ready", 1, nil, settle, "ready", "Running"},
		{"waiting for GPUs", 1, nil, func(w *world) {
			w.apply(asking("first", 8))
			w.settle()
			w.apply(asking("nb", 1))
			w.settle()
		}, "warning", "Queued: waits for 1 nvidia.com/gpu; of 8 that nodes offer it, no node has that many free"},
		{"too large for every node", 16, nil, settle, "warning", "NoSuchGPU: it asks for 16 nvidia.com/gpu, and no node that it may use has more than 8"},
		{"a quota refuses its pod", 1, nil, func(w *world) {
			w.refuse = `pods "nb-0" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2`
			w.reconcile()
			w.sets()
			w.twice()
		}, "warning", "Quota: quota q of namespace team-a allows 2"},
		{"its image is pulled, of which the kubelet says no more", 1, nil, waits("ContainerCreating", ""), "warning", "ContainerCreating: "},
		{"its image cannot be pulled", 1, nil, waits("ImagePullBackOff", "Back-off pulling image"), "warning", "ImagePullBackOff: Back-off pulling image"},
		{"its init containers run", 1, nil, waits("PodInitializing", ""), "waiting", "PodInitializing"},
		{"stopped", 1, map[string]string{api.AnnotationStopped: "2026-11-21T09:00:00Z"}, settle, "stopped", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.bare.Create(t.Context(), w.node(8)))
			nb := asking("nb", int(c.gpus))
			nb.Annotations = c.annotate
			if c.name != "waiting for GPUs" {
				w.apply(nb)
			}
			c.play(w)
			status, text := webApp(t, w.get("nb"))
			if status != c.status || !strings.HasPrefix(text, c.text) {
				t.Errorf("it shows %s: %q, want %s: %q...", status, text, c.status, c.text)
			}
			if strings.HasSuffix(text, ": ") || strings.HasSuffix(text, ": -") {
				t.Errorf("it shows %q, which says nothing", text)
			}
		})
	}
}

// twice is two passes: what passes by itself within a second is not written before.
func (w *world) twice() {
	w.t.Helper()
	w.reconcile()
	w.now = w.now.Add(time.Second)
	w.reconcile()
}

// pod returns the pod of a notebook.
func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{}
	w.must(w.bare.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: name + "-0"}, pod))
	return pod
}
