package training_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kubeflow"
	core "berth.dev/berth/core/training"
	"berth.dev/berth/kube/training"
)

// asked is when a pod was asked to stop.
var asked = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// ends has a pod that is being deleted, with a grace period, end so many seconds after it was asked to stop.
func ends(pod func(func(*corev1.Pod)) *corev1.Pod, grace int64, after time.Duration) *corev1.Pod {
	return pod(func(p *corev1.Pod) {
		p.DeletionGracePeriodSeconds, p.DeletionTimestamp = &grace, &metav1.Time{Time: asked.Add(time.Duration(grace) * time.Second)}
		p.Status.Phase = corev1.PodSucceeded
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "tensorflow", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(asked.Add(after * time.Second))}}}}
	})
}

func TestPodOf(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "mnist-ps-1", UID: "u", Labels: map[string]string{kubeflow.LabelReplicaType: "ps", kubeflow.LabelReplicaIndex: "1"},
		}}
		change(p)
		return p
	}
	code := func(n int) *int { return &n }
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		want func(*core.Pod)
		not  bool
	}{
		{name: "its type is that of the label", pod: pod(func(*corev1.Pod) {}), want: func(*core.Pod) {}},
		{name: "a label with another type", pod: pod(func(p *corev1.Pod) { p.Labels[kubeflow.LabelReplicaType] = "helper" }), not: true},
		{name: "a label that is not a number", pod: pod(func(p *corev1.Pod) { p.Labels[kubeflow.LabelReplicaIndex] = "one" }), not: true},
		{name: "the exit code is that of the container that trains", pod: pod(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "side", RestartCount: 1, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}},
				{Name: "tensorflow", RestartCount: 2, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}},
			}
		}), want: func(p *core.Pod) { p.Phase, p.Exit, p.Restarts = core.Failed, code(137), 3 }},
		{name: "the eviction API", pod: pod(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
		}), want: func(p *core.Pod) { p.Phase, p.Disrupted, p.Why = core.Failed, true, "EvictionByEvictionAPI" }},
		{name: "a kubelet that evicts for memory", pod: pod(func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" }), want: func(p *core.Pod) { p.Phase, p.Disrupted, p.Why = core.Failed, true, "Evicted" }},
		{name: "a program that ends with 0 after it was asked to stop", pod: ends(pod, 30, 5), want: func(p *core.Pod) {
			p.Phase, p.Exit, p.Deleting, p.Killed, p.Asked, p.Interrupted = core.Succeeded, code(0), true, asked.Add(30*time.Second), asked, true
		}},
		{name: "a program that had ended when its pod was deleted", pod: ends(pod, 30, -5), want: func(p *core.Pod) {
			p.Phase, p.Exit, p.Deleting, p.Killed, p.Asked = core.Succeeded, code(0), true, asked.Add(30*time.Second), asked
		}},
		{name: "a termination message with the age of the checkpoint", pod: pod(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodSucceeded
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "tensorflow", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				FinishedAt: metav1.NewTime(asked), Message: "berth-checkpoint: 5s",
			}}}}
		}), want: func(p *core.Pod) { p.Phase, p.Exit, p.Saves.Last = core.Succeeded, code(0), asked.Add(-5*time.Second) }},
		{name: "its round and node", pod: pod(func(p *corev1.Pod) { p.Annotations, p.Spec.NodeName = map[string]string{"berth.dev/round": "3"}, "n1" }), want: func(p *core.Pod) { p.Round, p.Node = 3, "n1" }},
		{name: "a round that is not a number", pod: pod(func(p *corev1.Pod) { p.Annotations = map[string]string{"berth.dev/round": "x"} }), want: func(*core.Pod) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := training.PodOf(core.TFJob, tt.pod)
			if ok == tt.not {
				t.Fatalf("read: %v", ok)
			}
			if tt.not {
				return
			}
			want := core.Pod{Member: core.Member{Type: core.PS, Index: 1}, Name: "mnist-ps-1", UID: "u"}
			tt.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestQueued(t *testing.T) {
	waits := func(name, message string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if message != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}}
		}
		return p
	}
	placed := waits("a", "old")
	placed.Spec.NodeName = "n"
	const elsewhere = "waiting for gang g: its pods do not fit together now, and pod d says why"
	for _, tt := range []struct {
		name string
		pods []*corev1.Pod
		want string
	}{
		{"all have a node", []*corev1.Pod{placed}, "all pods have a node"},
		{"the scheduler has said nothing yet", []*corev1.Pod{waits("b", "")}, "all pods have a node"},
		{"the pod that says why, wherever it is in the list", []*corev1.Pod{waits("b", elsewhere), waits("d", "why"), waits("c", elsewhere)}, "why"},
		{"a pod that names it, until it has said it", []*corev1.Pod{waits("c", elsewhere), waits("d", ""), placed}, elsewhere},
		{"the first by name of several", []*corev1.Pod{waits("z", "late"), waits("b", "first"), waits("y", "later")}, "first"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := training.Queued(tt.pods).Message; got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
