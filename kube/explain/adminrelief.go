package explain

import (
	"strings"

	reasons "berth.dev/berth/core/explain"
)

// mostEach is how many nodes are named for one change of the cluster.
const mostEach = 1

// adminReliefs are the changes of a node with which a pod would fit there now: those of
// nodes that pass every check but one of cordons, taints, or labels that the pod wants.
func adminReliefs(v *reasons.Verdict) []reasons.Relief {
	var out []reasons.Relief
	count := map[string]int{}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if len(n.Gaps) != 1 {
			continue
		}
		var r reasons.Relief
		switch g := &n.Gaps[0]; {
		case g.Check == reasons.CheckClosed && g.Subject == "cordoned":
			r = reasons.Relief{Change: "uncordon node " + n.Node, Command: "kubectl uncordon " + n.Node}
		case g.Check == reasons.CheckTaint:
			r = reasons.Relief{Change: "remove the taint " + g.Subject + " of node " + n.Node, Command: "kubectl taint nodes " + n.Node + " " + g.Subject + "-"}
		case g.Check == reasons.CheckSelector && !ownLabel(g.Subject):
			r = reasons.Relief{Change: "label node " + n.Node, Command: "kubectl label node " + n.Node + " " + g.Subject + " --overwrite"}
		default:
			continue
		}
		kind, _, _ := strings.Cut(r.Change, " ")
		if count[kind]++; count[kind] <= mostEach {
			r.Node, r.Admin = n.Node, true
			out = append(out, r)
		}
	}
	return out
}

// ownLabel reports whether programs write a label, of which it is not for people to change.
func ownLabel(label string) bool {
	key, _, _ := strings.Cut(label, "=")
	prefix, _, _ := strings.Cut(key, "/")
	return strings.HasSuffix(prefix, "kubernetes.io") || strings.HasSuffix(prefix, "k8s.io") || prefix == "nvidia.com"
}
