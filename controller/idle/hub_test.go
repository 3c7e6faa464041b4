package idle_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rules "berth.dev/berth/core/idle"
)

// hubPod is a pod as KubeSpawner makes one, bound and ready since the stage's start.
func hubPod(annotations map[string]string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: "jupyter-ada", UID: "uid-ada", Annotations: map[string]string{"hub.jupyter.org/username": "ada"},
			Labels: map[string]string{"app": "jupyterhub", "component": "singleuser-server", "hub.jupyter.org/username": "ada"},
		},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "notebook"}}},
	}
	maps.Copy(p.Annotations, annotations)
	p.Status.Phase = corev1.PodRunning
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)})
	}
	return p
}

func (s *stage) gone() bool {
	s.t.Helper()
	err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: ns, Name: "jupyter-ada"}, &corev1.Pod{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
	return err != nil
}

func TestPodsOfAHubAreStoppedByTheirNamespacesPolicy(t *testing.T) {
	const after, by, most = "berth.dev/notebook-idle-after", "berth.dev/notebook-idle-by", "berth.dev/max-session"
	for _, tt := range []struct {
		name   string
		policy map[string]string
		gpu    float64
		gauged rules.Result
		gone   bool
		events []string // parts of them, in order
	}{
		{"idle GPUs", map[string]string{after: "1h", by: "gpu"}, 0, rules.OK, true, []string{
			"IdleWarning: stops at 2026-11-21T09:", "or: kubectl annotate --overwrite pod jupyter-ada -n " + ns + " berth.dev/notebook-idle-after=never",
			"StoppedIdle: stopped as idle: ", "start it again in JupyterHub",
		}},
		{"busy GPUs", map[string]string{after: "1h", by: "gpu"}, 0.5, rules.OK, false, nil},
		{"no exporter", map[string]string{after: "1h", by: "gpu"}, 0, rules.Absent, false, []string{"IdleUnknown: never stopped as idle, because its activity is unknown: only its hub may ask its server"}},
		{"any activity counts", map[string]string{after: "1h"}, 0, rules.OK, false, []string{"IdleUnknown: never stopped as idle, because its activity is unknown: only its hub may ask its server"}},
		{"a session that is over", map[string]string{most: "90m"}, 0.5, rules.OK, true, []string{"SessionEnding: stops at ", "SessionEnded: stopped: its session has lasted"}},
		{"no policy but the process's", nil, 0, rules.OK, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, hubPod(tt.policy))
			s.gpu, s.gauged = tt.gpu, tt.gauged
			s.pass(3 * time.Hour)
			if s.gone() != tt.gone {
				t.Errorf("the pod is gone: %v, want %v", s.gone(), tt.gone)
			}
			s.toldInOrder(t, tt.events)
		})
	}
}

// A process that has not seen a warning stand stops nothing: the next one warns again.
func TestAWarningOfAHubsPodIsGivenAgainAfterARestart(t *testing.T) {
	s := newStage(t, hubPod(map[string]string{"berth.dev/notebook-idle-after": "1h", "berth.dev/notebook-idle-by": "gpu"}))
	s.pass(55 * time.Minute)
	if all := strings.Join(s.events, "\n"); !strings.Contains(all, "IdleWarning") || s.gone() {
		t.Fatalf("after 55 minutes the pod is gone: %v; events:\n%s", s.gone(), all)
	}
	s.events = nil
	s.restart()
	s.pass(9 * time.Minute)
	if s.gone() {
		t.Error("a process stopped what it had not seen idle for its whole time")
	}
	s.pass(2 * time.Hour)
	if all := strings.Join(s.events, "\n"); !strings.Contains(all, "IdleWarning") || !s.gone() {
		t.Errorf("at the end the pod is gone: %v; events:\n%s", s.gone(), all)
	}
}

func TestOtherPodsAreNotAHubs(t *testing.T) {
	p := hubPod(map[string]string{"berth.dev/max-session": "1h"})
	delete(p.Annotations, "hub.jupyter.org/username")
	s := newStage(t, p)
	if s.pass(3 * time.Hour); s.gone() || len(s.events) > 0 {
		t.Errorf("a pod without a hub's user is gone: %v; events %v", s.gone(), s.events)
	}
}
