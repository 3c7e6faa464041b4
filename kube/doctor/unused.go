package doctor

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
)

// stranded finds nodes with free GPUs that no pod can get, as pods hold the CPU or memory beside them.
func (e *examined) stranded() []finding.Finding {
	var found []string
	for i := range e.offering {
		n := &e.offering[i]
		if n.Free < cluster.Whole {
			continue
		}
		has := e.byName[n.Name].Status.Allocatable
		if has.Cpu().IsZero() || has.Memory().IsZero() {
			continue // it does not say how much it has
		}
		left := request.RoomIn(has)
		for _, p := range e.on[n.Name] {
			left = left.Minus(request.Room(p))
		}
		if why := left.Strands(usage.SmallestPod); why != "" {
			found = append(found, fmt.Sprintf("%s (%s, %s left)", n.Name, count(int(n.Free/cluster.Whole), "GPU"), why.Text()))
		}
	}
	if len(found) == 0 {
		return nil
	}
	return []finding.Finding{warn("stranded", fmt.Sprintf("%s %s free GPUs that no pod can get, as others hold all CPU or memory there: %s",
		count(len(found), "node"), verb(len(found), "has", "have"), few(found)),
		"lower the requests of pods there (kubectl describe node NODE), and keep pods without GPUs off by a taint")}
}

// strays finds pods that request no GPU and tolerate the taint of a node with GPUs, which keeps others off. Those of the cluster's own
// namespaces are left out, and so are nodes without a taint: see taints.
func (e *examined) strays() []finding.Finding {
	own := map[string]bool{metav1.NamespaceSystem: true, operatorNamespace: true}
	for _, p := range e.parts {
		own[p.set.Namespace] = true
	}
	var found, nodes []string
	for i := range e.offering {
		name := e.offering[i].Name
		if _, kept := explain.Untolerated(e.byName[name], nil); !kept {
			continue
		}
		before := len(found)
		for _, p := range e.on[name] {
			if _, kept := explain.Untolerated(e.byName[name], p.Spec.Tolerations); !kept && request.Stray(p) && !own[p.Namespace] {
				found = append(found, p.Namespace+"/"+p.Name)
			}
		}
		if len(found) > before {
			nodes = append(nodes, name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return []finding.Finding{warn("strays", fmt.Sprintf("%s that %s for no GPU %s the taint of %s with GPUs, and %s CPU and memory there: %s (%s)",
		count(len(found), "pod"), verb(len(found), "asks", "ask"), verb(len(found), "tolerates", "tolerate"), count(len(nodes), "node"), verb(len(found), "takes", "take"), few(nodes), few(found)),
		"remove the toleration from pods that need no GPU; `berth scheduler --other-pods` keeps them off: docs/gpu-nodes.md")}
}

// privileged finds pods that see all GPUs of their node and hold none: they are privileged, and are neither part of the cluster nor on every node.
func (e *examined) privileged() []finding.Finding {
	var found []string
	for i := range e.offering {
		for _, p := range e.on[e.offering[i].Name] {
			if p.Namespace != metav1.NamespaceSystem && !request.OnEveryNode(p) && len(request.Of(p)) == 0 && slices.ContainsFunc(p.Spec.Containers, isPrivileged) {
				found = append(found, p.Namespace+"/"+p.Name)
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return []finding.Finding{warn("privileged", fmt.Sprintf("%s on nodes with GPUs %s privileged and %s for none: it can use GPUs that others hold: %s",
		count(len(found), "pod"), verb(len(found), "is", "are"), verb(len(found), "asks", "ask"), few(found)),
		"remove securityContext.privileged, or keep such pods off these nodes")}
}

func isPrivileged(c v1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}
