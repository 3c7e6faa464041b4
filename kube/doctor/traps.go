package doctor

import (
	"fmt"
	"slices"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
)

// limits finds LimitRanges by which containers get GPUs that they did not ask for.
func (e *examined) limits() []finding.Finding {
	var found []string
	for _, l := range e.LimitRanges {
		for _, d := range explain.GPUDefaults(l) {
			found = append(found, fmt.Sprintf("%s/%s gives %s %s by its %s", l.Namespace, l.Name, d.Amount, d.Resource, d.Field))
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return []finding.Finding{warn("limit-ranges", "every new container that says nothing of GPUs gets some in these namespaces, sidecars too: "+few(found),
		"remove the GPUs from the LimitRange, and limit them by a ResourceQuota (requests."+api.ResourceGPU+") or a Queue (perPod)")}
}

// defaultClass finds a PriorityClass that every pod gets.
func (e *examined) defaultClass() []finding.Finding {
	for _, c := range e.PriorityClasses {
		if c.GlobalDefault && c.Value != 0 {
			return []finding.Finding{warn("global-default", fmt.Sprintf("every new pod that names no PriorityClass gets %s (%d), with or without GPUs: classes below it are below all of these pods", c.Name, c.Value),
				"kubectl patch priorityclass "+c.Name+" -p '{\"globalDefault\":false}', and name the class in the pods that are to have it")}
		}
	}
	return nil
}

// stale finds inventories of Berth's agent on nodes that another device plugin serves by now, or that the agent has left: they are counted
// by what the agent wrote last.
func (e *examined) stale() []finding.Finding {
	by, installed := map[string]bool{}, false // nodes with a pod of the agent; the agent has a DaemonSet
	others := map[string]string{}
	for _, p := range e.of(plugin) {
		for _, n := range p.nodes {
			if p.value == agentLabel {
				by[n], installed = true, true
			} else if !p.simulated {
				others[n] = p.name()
			}
		}
	}
	var nodes, left []string
	for i := range e.offering {
		n := e.byName[e.offering[i].Name]
		_, published := n.Annotations[api.AnnotationInventory]
		switch {
		case !published || simulated(n) || by[n.Name]:
		case others[n.Name] != "":
			nodes = append(nodes, n.Name+" ("+others[n.Name]+")")
		case installed: // without a DaemonSet the agent may be a service of the node
			left = append(left, n.Name)
		}
	}
	var out []finding.Finding
	if len(left) > 0 {
		out = append(out, warn("inventory", fmt.Sprintf("%s %s GPUs that Berth's agent has listed, and its DaemonSet has no pod there: %s",
			count(len(left), "node"), verb(len(left), "has", "have"), few(left)),
			"see why the DaemonSet has no pod there (kubectl describe node NODE), or remove the list: kubectl annotate node NODE "+api.AnnotationInventory+"-"))
	}
	if len(nodes) == 0 {
		return out
	}
	return append(out, warn("inventory", fmt.Sprintf("%s %s GPUs that Berth's agent has listed, and another device plugin serves %s: %s",
		count(len(nodes), "node"), verb(len(nodes), "has", "have"), verb(len(nodes), "it", "them"), few(nodes)),
		"kubectl annotate node NODE "+api.AnnotationInventory+"-, unless the agent comes back there"))
}

// blind finds pods that see GPUs which they do not hold: by the variable that the container toolkit reads.
func (e *examined) blind() []finding.Finding {
	var found []string
	for _, p := range e.Pods {
		if p.Spec.NodeName == "" || request.OnEveryNode(p) {
			continue
		}
		if code, _ := explain.Misuse(p, nil); code == reasons.CodeForeignGPUs {
			found = append(found, p.Namespace+"/"+p.Name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return []finding.Finding{warn("visible-devices", fmt.Sprintf("%s %s NVIDIA_VISIBLE_DEVICES and %s for no GPU: where the container runtime allows it, they use GPUs that others hold: %s",
		count(len(found), "pod"), verb(len(found), "sets", "set"), verb(len(found), "asks", "ask"), few(found)),
		"ask for GPUs by a limit, such as "+api.ResourceGPU+": 1, and have the runtime accept devices from the device plugin alone: accept-nvidia-visible-devices-envvar-when-unprivileged = false")}
}
