package kube

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/notebook"
)

// PodFacts is a pod as the rules of what is said of notebooks see it, with the
// Warning events about it, oldest first; events about other kinds are left out.
func PodFacts(pod *v1.Pod, events []v1.Event) *notebook.Pod {
	out := &notebook.Pod{Name: pod.Name, Node: pod.Spec.NodeName, Deleting: pod.DeletionTimestamp != nil, Created: pod.CreationTimestamp.Time}
	if pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded {
		out.Failed = strings.TrimSuffix(cmp.Or(pod.Status.Reason, string(pod.Status.Phase))+": "+pod.Status.Message, ": ")
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		out.Conditions = append(out.Conditions, notebook.Condition{
			Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
		})
	}
	out.Containers = append(containerFacts(pod.Status.InitContainerStatuses, pod.Spec.InitContainers, true), containerFacts(pod.Status.ContainerStatuses, pod.Spec.Containers, false)...)
	for i := range events {
		if events[i].InvolvedObject.Kind == "Pod" {
			out.Troubles = append(out.Troubles, notebook.Refusal{Reason: events[i].Reason, Message: events[i].Message})
		}
	}
	return out
}

func containerFacts(list []v1.ContainerStatus, specs []v1.Container, init bool) []notebook.Container {
	var out []notebook.Container
	for i := range list {
		s := &list[i]
		c := notebook.Container{Name: s.Name, Image: s.Image, Init: init, Restarts: s.RestartCount, Running: s.State.Running != nil, Ended: s.State.Terminated != nil}
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
			c.ExitCode, c.OutOfMemory = t.ExitCode, t.Reason == "OOMKilled"
		}
		out = append(out, c)
	}
	return out
}

// PlaceInLine is where a pod that has no node stands among the pods that wait for the
// same, as the scheduler orders them; zero where the scheduler has not looked at it.
func PlaceInLine(pod *v1.Pod, pods []*v1.Pod) notebook.Place {
	lines := notebook.NewLines()
	for _, p := range pods {
		if want := AmountsOf(p); len(want) > 0 && refused(p) {
			m := memberOf(p)
			m.Resource, m.Count, m.Waits = want[0].Resource, want[0].Count, true
			lines.Put(m)
		}
	}
	m := notebook.Member{Namespace: pod.Namespace, Name: pod.Name}
	return lines.Place(m.ID())
}

// memberOf is a pod as one of a line, without what it stands in line for.
func memberOf(p *v1.Pod) notebook.Member {
	return notebook.Member{Namespace: p.Namespace, Name: p.Name, Priority: priorityOf(p), Created: p.CreationTimestamp.Time, UID: string(p.UID)}
}

// refused says whether the scheduler has found no place for a pod.
func refused(p *v1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse
	})
}
