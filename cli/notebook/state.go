package notebook

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/explain"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// State is what a notebook does, in one word: the reason of its condition Ready.
// Where Kubeflow's controller runs it, whose reasons are the pod's, it is told
// from what there is.
func State(nb *kubeflow.Notebook) explain.Reason {
	ready := nb.Status.Condition(kubeflow.ConditionReady)
	known := ready != nil && slices.Contains(explain.Reasons, explain.Reason(ready.Reason))
	_, stopped := nb.Annotations[api.AnnotationStopped]
	switch {
	case nb.DeletionTimestamp != nil:
		return explain.Terminating
	case stopped && known && explain.Reason(ready.Reason) == explain.Terminating:
		return explain.Terminating
	case stopped:
		return explain.Stopped
	case ready != nil && ready.Status == v1.ConditionTrue && (known || nb.Status.ReadyReplicas > 0):
		return explain.Ready // without a reason of Berth's, conditions may be of a pod that is gone
	case known && !begun(nb):
		return explain.Starting
	case known:
		return explain.Reason(ready.Reason)
	case nb.Status.ContainerState.Waiting != nil && strings.Contains(nb.Status.ContainerState.Waiting.Reason, "Image"):
		return explain.ImageTrouble
	case unscheduled(nb):
		return explain.Queued
	}
	return explain.Starting
}

// begun reports whether the controller has seen that a notebook is not stopped, or
// no longer.
func begun(nb *kubeflow.Notebook) bool {
	ready, queued := nb.Status.Condition(kubeflow.ConditionReady), nb.Status.Condition(kubeflow.ConditionGPUQueued)
	if ready == nil || queued != nil && queued.Reason == explain.QueuedStopped {
		return false
	}
	return ready.Reason != string(explain.Stopped)
}

// unscheduled reports whether the pod's own condition is that it has no node.
func unscheduled(nb *kubeflow.Notebook) bool {
	c := nb.Status.Condition(string(v1.PodScheduled))
	return c != nil && c.Status == v1.ConditionFalse
}

// Cause is why a notebook is not ready, in a sentence; "" is not said.
func Cause(nb *kubeflow.Notebook) string {
	if ready := nb.Status.Condition(kubeflow.ConditionReady); ready != nil && ready.Message != "" && ready.Status != v1.ConditionTrue {
		return ready.Message
	}
	if c := nb.Status.Condition(string(v1.PodScheduled)); c != nil && c.Status == v1.ConditionFalse {
		sentence, _ := queue.Marked(c.Message)
		return sentence
	}
	if w := nb.Status.ContainerState.Waiting; w != nil {
		return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
	}
	return ""
}

// Place is where a notebook is: its node, or its place in line; "-" is neither.
func Place(nb *kubeflow.Notebook) string {
	if _, stopped := nb.Annotations[api.AnnotationStopped]; stopped {
		return "-"
	}
	if c := nb.Status.Condition(kubeflow.ConditionGPUQueued); c != nil {
		return cmp.Or(c.Message, "-")
	}
	return "-"
}

// shortPlace is place without what it says of a change that waits.
func shortPlace(nb *kubeflow.Notebook) string {
	short, _, _ := strings.Cut(Place(nb), ";")
	return short
}

// inLine reports whether a notebook waits for its place.
func inLine(nb *kubeflow.Notebook) bool {
	c := nb.Status.Condition(kubeflow.ConditionGPUQueued)
	return c != nil && c.Status == v1.ConditionTrue
}

// podSpec reads what the notebook's pod is to be. A spec that is no PodSpec gives
// an empty one: the API server has let it pass, and the controller says what is
// wrong.
func podSpec(nb *kubeflow.Notebook) v1.PodSpec {
	var spec v1.PodSpec
	if err := json.Unmarshal(nb.Spec.Template.Spec.Raw, &spec); err != nil {
		return v1.PodSpec{}
	}
	return spec
}

// PodOf is the pod of a notebook as it would be made, as far as its place goes.
func PodOf(nb *kubeflow.Notebook) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: nb.Namespace, Name: nb.Name + "-0", Annotations: nb.Annotations},
		Spec:       podSpec(nb),
	}
}

// gpusText returns what the pod of a notebook has while a change of it waits for room,
// and else what the notebook asks for, for a column.
func gpusText(nb *kubeflow.Notebook) string {
	c := nb.Status.Condition(kubeflow.ConditionGPUQueued)
	if c != nil && c.Reason == explain.QueuedChange && nb.Status.GPUs != "" {
		return nb.Status.GPUs
	}
	return request.GPUsText(PodOf(nb))
}

// Asked is what a notebook asks for of GPUs, by resource; empty is nothing.
func Asked(nb *kubeflow.Notebook) map[string]int64 {
	out := request.Of(PodOf(nb))
	if out == nil {
		out = map[string]int64{}
	}
	return out
}

// idleText says how long nothing has happened in a notebook that runs, or when
// it is stopped for it; "-" is not known.
func idleText(nb *kubeflow.Notebook, now time.Time) string {
	if at, ok := NoteTime(nb, api.AnnotationNotebookStopsAt); ok && State(nb) != explain.Stopped {
		return "stops in " + duration.HumanDuration(max(0, at.Sub(now)))
	}
	if since, ok := IdleSince(nb); ok {
		return duration.HumanDuration(max(0, now.Sub(since)))
	}
	return "-"
}

// IdleSince is when something last happened in a notebook that runs.
func IdleSince(nb *kubeflow.Notebook) (time.Time, bool) {
	if State(nb) != explain.Ready {
		return time.Time{}, false
	}
	return NoteTime(nb, api.AnnotationLastActivity)
}

// NoteTime reads an annotation that is a time.
func NoteTime(nb *kubeflow.Notebook, name string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, nb.Annotations[name])
	return at, err == nil
}

// profileOf is the profile that a notebook was made of, without its options.
func profileOf(nb *kubeflow.Notebook) string {
	name, _, _ := strings.Cut(nb.Annotations[api.AnnotationNotebookProfile], ";")
	return cmp.Or(name, "-")
}

// userOf is who a notebook is for; "-" is not known.
func userOf(nb *kubeflow.Notebook) string { return request.User(PodOf(nb)) }

// changeWaits says whether a notebook runs as it was because a change of it does
// not fit.
func changeWaits(nb *kubeflow.Notebook) bool {
	c := nb.Status.Condition(kubeflow.ConditionGPUQueued)
	return c != nil && c.Reason == explain.QueuedChange
}

// WaitsForGPUs says whether a notebook has no place for want of GPUs.
func WaitsForGPUs(nb *kubeflow.Notebook) bool {
	s := State(nb)
	return len(Asked(nb)) > 0 && (s == explain.Queued || s == explain.NoSuchGPU || changeWaits(nb))
}
