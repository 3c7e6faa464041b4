package explain

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
)

// selection tells apart why the labels that a pod wants exclude nodes.
func (t *Cluster) selection(a *ask, g *reasons.Gap) *reasons.Detail {
	chosen := slices.DeleteFunc(slices.Clone(t.all), func(n *v1.Node) bool { return len(unselected(a, n)) > 0 })
	if len(chosen) > 0 {
		return t.selected(a, chosen)
	}
	wanted := wantedLabels(a.pod)
	for _, w := range wanted {
		if d := t.suffixed(w); d != nil {
			return d
		}
	}
	if d := t.labelDetail(a.pod); d != nil {
		return d
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(t.all, func(n *v1.Node) bool { _, ok := n.Labels[w.key]; return ok }) {
			return &reasons.Detail{Code: reasons.CodeLabelMissing}
		}
	}
	if g.Check == reasons.CheckSelector && len(wanted) > 1 && t.eachIsMet(wanted) {
		var all []string
		for _, w := range wanted {
			all = append(all, w.key+"="+strings.Join(w.values, ","))
		}
		return &reasons.Detail{Code: reasons.CodeSelectorTwo, Text: "each of the labels that it wants is on some node, and no node has all of them: " + strings.Join(all, " and ") + "; leave one of them out"}
	}
	return nil
}

// selected tells apart why the nodes that have the labels which a pod wants do not do.
func (t *Cluster) selected(a *ask, chosen []*v1.Node) *reasons.Detail {
	offers := func(n *v1.Node) bool { return unoffered(n, n.Status.Capacity, a.names) == "" }
	if len(a.names) > 0 && !slices.ContainsFunc(chosen, offers) {
		if d := t.otherDevices(chosen, a.names[0], " that it selects"); d != nil {
			return d
		}
	}
	return &reasons.Detail{Code: reasons.CodeSelectorFull}
}

// suffixed finds a node whose value of a wanted label is the wanted one with the suffix
// that GPU Feature Discovery adds where GPUs are shared or partitioned.
func (t *Cluster) suffixed(w wantedLabel) *reasons.Detail {
	for _, value := range valuesOf(t.all, w.key+"=") {
		for _, want := range w.values {
			if strings.HasPrefix(value, want+"-SHARED") || strings.HasPrefix(value, want+"-MIG-") {
				return &reasons.Detail{Code: reasons.CodeLabelSuffix, Text: fmt.Sprintf("no node has %s=%s; the label is %s where GPUs are shared or partitioned: select that value, or nodes with whole GPUs", w.key, want, value)}
			}
		}
	}
	return nil
}

// wantedLabel is one label that a pod wants, with the values that will do.
type wantedLabel struct {
	key    string
	values []string
}

// wantedLabels are the labels that every node of a pod must have: of its node selector, and
// of its required affinity if that has one term.
func wantedLabels(pod *v1.Pod) []wantedLabel {
	var out []wantedLabel
	for _, r := range requirements(pod) {
		if r.Operator == v1.NodeSelectorOpIn || r.Operator == v1.NodeSelectorOpExists {
			out = append(out, wantedLabel{r.Key, r.Values})
		}
	}
	return out
}

// eachIsMet reports whether some node has each of the labels.
func (t *Cluster) eachIsMet(wanted []wantedLabel) bool {
	for _, w := range wanted {
		if !slices.ContainsFunc(t.all, func(n *v1.Node) bool { return slices.Contains(w.values, n.Labels[w.key]) }) {
			return false
		}
	}
	return true
}
