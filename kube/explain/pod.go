package explain

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// PodFacts is a pod as the rules of what is said of notebooks see it, with the
// Warning events about it, oldest first; events about other kinds are left out.
func PodFacts(pod *v1.Pod, events []v1.Event) *reasons.Pod {
	out := &reasons.Pod{Name: pod.Name, Node: pod.Spec.NodeName, Deleting: pod.DeletionTimestamp != nil, Created: pod.CreationTimestamp.Time, Finalizers: pod.Finalizers}
	for _, gate := range pod.Spec.ReadinessGates {
		out.ReadyGates = append(out.ReadyGates, string(gate.ConditionType))
	}
	if request.Ended(pod) {
		out.Failed = strings.TrimSuffix(cmp.Or(pod.Status.Reason, string(pod.Status.Phase))+": "+pod.Status.Message, ": ")
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		out.Conditions = append(out.Conditions, reasons.Condition{
			Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
		})
	}
	out.Containers = append(containerFacts(pod.Status.InitContainerStatuses, pod.Spec.InitContainers, true), containerFacts(pod.Status.ContainerStatuses, pod.Spec.Containers, false)...)
	for i := range events {
		if events[i].InvolvedObject.Kind == "Pod" {
			out.Troubles = append(out.Troubles, reasons.Refusal{Reason: events[i].Reason, Message: events[i].Message})
		}
	}
	return out
}

func containerFacts(list []v1.ContainerStatus, specs []v1.Container, init bool) []reasons.Container {
	var out []reasons.Container
	for i := range list {
		s := &list[i]
		c := reasons.Container{Name: s.Name, Image: s.Image, Init: init, Restarts: s.RestartCount, Running: s.State.Running != nil, Ended: s.State.Terminated != nil}
		for j := range specs {
			if specs[j].Name == s.Name {
				c.Image = specs[j].Image // the status may name it by its digest
				c.Init = init && (specs[j].RestartPolicy == nil || *specs[j].RestartPolicy != v1.ContainerRestartPolicyAlways)
			}
		}
		if w := s.State.Waiting; w != nil {
			c.Waiting, c.Message = cmp.Or(w.Reason, "ContainerCreating"), w.Message
		}
		if t := cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated); t != nil {
			c.ExitCode, c.OutOfMemory, c.Said = t.ExitCode, t.Reason == "OOMKilled", t.Message
		}
		out = append(out, c)
	}
	return out
}

// ReachOf is the nodes that have what a pod asks for, held or not, and that it
// selects and tolerates; without nodes it is not known.
func ReachOf(pod *v1.Pod, nodes []*v1.Node) *queue.Reach {
	if len(nodes) == 0 {
		return nil
	}
	var names []string
	asked := request.Of(pod)
	for _, n := range nodes {
		if offers(asked, n) && tolerates(pod, n) == nil && selects(pod, n) {
			names = append(names, n.Name)
		}
	}
	return queue.NewReach(names)
}

// PlaceInLine is where a pod that has no node stands among the pods that compete with
// it, as the scheduler orders them: those that ask for the same resource and could go
// to some node that it could go to. It is zero where the scheduler has not looked at
// it. Without nodes all that ask for the resource count. owners finds the training jobs of pods, as request.Tickets has it.
func PlaceInLine(pod *v1.Pod, pods []*v1.Pod, nodes []*v1.Node, owners request.Owners) reasons.Place {
	return newLineup(pods, nodes, owners).place(pod)
}
