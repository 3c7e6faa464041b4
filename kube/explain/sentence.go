package explain

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/queue"
)

// Sentence is why a pod waits that a scheduler has refused in the words said: the headline
// of `berth why`, followed by the words about preemption. A pod that waits for something
// else than a node, or is refused for something that the nodes do not show, keeps the words.
func (r *Refusals) Sentence(pod *v1.Pod, said string, wait queue.Wait, ties []VolumeTopology, nodes Nodes) string {
	f := reasons.Facts{
		Namespace: pod.Namespace, Name: pod.Name, Claims: ClaimsOf(pod), Brief: true, Scheduler: pod.Spec.SchedulerName,
		Pod: &reasons.Pod{Name: pod.Name, Created: pod.CreationTimestamp.Time, Conditions: []reasons.Condition{
			{Type: reasons.ConditionScheduled, Status: reasons.False, Reason: v1.PodReasonUnschedulable, Message: said},
		}},
	}
	switch wait { // the rest is not about nodes
	case queue.Unknown, queue.Room, queue.NoSuchNode, queue.Preemption:
		if f.Verdict = r.Judge(pod, ties, nodes); f.Verdict.Binding() == nil {
			return withoutPlugins(said)
		}
		f.GPUs = f.Verdict.Asks
	case queue.Volume:
	default:
		return said
	}
	out := strings.TrimSuffix(f.Sentence(), ".")
	said, reserved, keeps := strings.Cut(said, " reservation: ")
	if _, preemption, found := strings.Cut(said, " preemption: "); found {
		out += ". preemption: " + preemption
	}
	if keeps && strings.HasPrefix(reserved, "its ") { // who else keeps GPUs is said already
		out += ". reservation: " + reserved
	}
	return out
}

// withoutPlugins leaves out of kube-scheduler's message the nodes of which it names only
// a plugin: the plugin has left them out so that one node is asked.
func withoutPlugins(said string) string {
	before, rest, found := strings.Cut(said, " nodes are available: ")
	if !found || !strings.Contains(rest, " didn't satisfy plugin") {
		return said
	}
	list, after, _ := strings.Cut(rest, ". ")
	var kept []string
	for part := range strings.SplitSeq(strings.TrimSuffix(list, "."), ", ") {
		if !strings.Contains(part, " didn't satisfy plugin") {
			kept = append(kept, part)
		}
	}
	if len(kept) == 0 {
		return said
	}
	return strings.TrimSpace(before + " nodes are available: " + strings.Join(kept, ", ") + ". " + after)
}
