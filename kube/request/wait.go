package request

import (
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/queue"
)

// WaitCondition is what the condition PodScheduled of a pod says that waits: its
// reason and message. Autoscalers buy nodes for the reason Unschedulable alone, so a
// wait that no node ends has the other reason that the API knows.
func WaitCondition(w queue.Wait, sentence string) (reason, message string) {
	if w.NodeHelps() {
		return v1.PodReasonUnschedulable, sentence
	}
	return v1.PodReasonSchedulingGated, w.Mark(sentence)
}

// Unscheduled is the condition of a pod that a scheduler has looked at and that has
// no node, or nil. A pod whose scheduling gates keep it from the scheduler has none.
func Unscheduled(pod *v1.Pod) *v1.PodCondition {
	if pod.Spec.NodeName != "" || len(pod.Spec.SchedulingGates) > 0 {
		return nil
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c
		}
	}
	return nil
}

// InLine reports whether a pod waits for devices that others hold, and would take
// those that become free.
func InLine(pod *v1.Pod) bool {
	c := Unscheduled(pod)
	if c == nil || pod.DeletionTimestamp != nil {
		return false
	}
	_, w := queue.Marked(c.Message)
	gated := c.Reason == v1.PodReasonSchedulingGated && w == queue.Unknown // by its spec
	return w.InLine() && !gated
}

// Counted returns how many GPUs a pod asks for, if it asks for nothing else of GPUs:
// what a pool declares of its nodes. Of MIG devices and shares it declares nothing.
func Counted(pod *v1.Pod) (gpus int64, ok bool) {
	want := Of(pod)
	n, ok := want[api.ResourceGPU]
	return n, ok && len(want) == 1
}
