package explain

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/request"
)

// memoryHeld is that the memory of GPUs is held, not their number.
func memoryHeld(g *reasons.Gap) *reasons.Detail {
	if g.Subject == api.ResourceGPUMemory {
		return &reasons.Detail{Code: reasons.CodeGPUMemoryHeld}
	}
	return nil
}

// leaving is that the pod would fit as soon as pods that are being deleted have ended.
func (t *Cluster) leaving(a *ask) *reasons.Detail {
	if len(t.going) == 0 {
		return nil
	}
	mine := t.candidates(a.pod, a.ties)
	mark := t.snapshot.Mark()
	defer t.snapshot.RollBack(mark)
	var names []string
	for node, pods := range t.going {
		on := t.read.Occupants(node)
		for _, p := range pods {
			if o := on[p.UID]; o != nil && len(o.Placement.Devices) > 0 && mine.has(o.Placement.Node) && t.snapshot.Release(&o.Placement) == nil {
				names = append(names, p.Namespace+"/"+p.Name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	who := ": " + strings.Join(names, ", ")
	if t.private {
		who = fmt.Sprintf(" (%d)", len(names))
	}
	for k, i := range mine.nodes {
		if placement.Fit(t.snapshot, i, &mine.asks[k]) == placement.Fits {
			return &reasons.Detail{Code: reasons.CodeTerminating, Text: fmt.Sprintf("the GPUs are held by pods that are being deleted and have not ended%s; if one stays, see its node and its finalizers", who)}
		}
	}
	return nil
}

// ranked is why the priority of a pod does not get it a place: it preempts none, or only
// pods that hold GPUs with the same priority or a higher one.
func (t *Cluster) ranked(a *ask) *reasons.Detail {
	if !ranks(a.pod) {
		return nil
	}
	mine := t.candidates(a.pod, a.ties)
	lower, holders, byDefault := 0, 0, 0
	for _, i := range mine.nodes {
		for _, o := range t.read.Occupants(t.snapshot.Node(i).Name) {
			if len(o.Placement.Devices) == 0 {
				continue
			}
			holders++
			if request.Priority(o.Pod) < request.Priority(a.pod) {
				lower++
			} else if t.byDefault != "" && o.Pod.Spec.PriorityClassName == t.byDefault {
				byDefault++
			}
		}
	}
	switch never := request.NeverPreempts(a.pod); {
	case never && lower == 1:
		return &reasons.Detail{Code: reasons.CodeNeverPreempts, Text: "its preemptionPolicy is Never, so 1 pod of lower priority keeps its GPUs"}
	case never && lower > 0:
		return &reasons.Detail{Code: reasons.CodeNeverPreempts, Text: fmt.Sprintf("its preemptionPolicy is Never, so %d pods of lower priority keep their GPUs", lower)}
	case !never && lower == 0 && byDefault > 0 && a.pod.Spec.PriorityClassName != t.byDefault:
		return &reasons.Detail{Code: reasons.CodeDefaultClass, Text: fmt.Sprintf("its priority %d preempts no pod: pods that hold these GPUs (%d of %d) have PriorityClass %s, which pods that name none get",
			request.Priority(a.pod), byDefault, holders, t.byDefault)}
	case !never && lower == 0 && holders > 0:
		return &reasons.Detail{Code: reasons.CodeLowPriority, Text: fmt.Sprintf("its priority %d preempts no pod: all that hold these GPUs have the same priority or a higher one", request.Priority(a.pod))}
	}
	return nil
}

// SetPriorities sets the PriorityClasses, one of which pods may get that name none.
func (t *Cluster) SetPriorities(classes []schedulingv1.PriorityClass) {
	t.byDefault = defaultClass(classes)
}

// SetPriorities sets the PriorityClasses, in place of those that were set before.
func (r *Refusals) SetPriorities(classes []schedulingv1.PriorityClass) {
	name := defaultClass(classes)
	if name == r.byDefault {
		return
	}
	if r.byDefault = name; r.cluster != nil {
		r.cluster.byDefault = name
	}
	clear(r.asks)
}

// defaultClass is the PriorityClass that pods get that name none: of several the one of the
// lowest value, as the API server chooses. "" is none.
func defaultClass(classes []schedulingv1.PriorityClass) string {
	var found *schedulingv1.PriorityClass
	for i := range classes {
		if c := &classes[i]; c.GlobalDefault && (found == nil || c.Value < found.Value) {
			found = c
		}
	}
	if found == nil {
		return ""
	}
	return found.Name
}

// ranks reports whether a pod has a PriorityClass that puts it before others.
func ranks(pod *v1.Pod) bool {
	return request.Priority(pod) > 0 && pod.Spec.PriorityClassName != ""
}
