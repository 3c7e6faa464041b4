package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/explain"
)

// mostParts is how many DaemonSets one finding names.
const mostParts = 8

// barred is a taint of some nodes with GPUs that DaemonSets do not tolerate.
type barred struct {
	taint   v1.Taint
	running bool   // their pods are there still; a taint of NoSchedule lets them be
	nodes   string // names
}

// tolerations finds DaemonSets for nodes with GPUs that the taint of such a node keeps
// off, or would, once their pods there end.
func (e *examined) tolerations() []finding.Finding {
	found, nodes := map[barred][]string{}, map[barred]int{}
	for _, p := range e.parts {
		for b, names := range e.bars(p) {
			b.nodes = few(names)
			found[b] = append(found[b], fmt.Sprintf("%s (%s)", p.name(), p.role))
			nodes[b] = len(names)
		}
	}
	var out []finding.Finding
	for _, b := range slices.SortedFunc(maps.Keys(found), func(a, b barred) int {
		return cmp.Or(cmp.Compare(a.taint.ToString(), b.taint.ToString()), cmp.Compare(fmt.Sprint(a.running), fmt.Sprint(b.running)), cmp.Compare(a.nodes, b.nodes))
	}) {
		does := "keeps off"
		if b.running {
			does = "would keep off, once their pods there end,"
		}
		sets := found[b]
		if len(sets) > mostParts {
			sets = append(sets[:mostParts:mostParts], fmt.Sprintf("and %d more", len(sets)-mostParts))
		}
		out = append(out, warn("tolerations", fmt.Sprintf("the taint %s of %s with GPUs (%s) %s DaemonSet %s",
			b.taint.ToString(), count(nodes[b], "node"), b.nodes, does, strings.Join(sets, ", ")), "add to its tolerations "+explain.TolerationOf(&b.taint)))
	}
	return out
}

// bars returns the names of the nodes with GPUs that a DaemonSet chooses and does not
// tolerate, by taint and whether a pod of it is there.
func (e *examined) bars(p *part) map[barred][]string {
	out := map[barred][]string{}
	for i := range e.offering {
		n := e.byName[e.offering[i].Name]
		t, untolerated := explain.Untolerated(n, p.set.Spec.Template.Spec.Tolerations)
		if !untolerated || !chooses(p, n) {
			continue
		}
		_, running := slices.BinarySearch(p.nodes, n.Name)
		b := barred{taint: v1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}, running: running} // without its time
		out[b] = append(out[b], n.Name)
	}
	return out
}
