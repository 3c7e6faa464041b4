package queues

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
)

// wants is what a pod requires of the label nvidia.com/gpu.product: one of alternatives,
// each of which is conditions that hold together. Other labels are taken to be as they
// should.
type wants [][]condition

// condition is one requirement of the value of the label.
type condition struct {
	operator v1.NodeSelectorOperator
	values   []string
}

// wantsOf reads the node selector and the required node affinity of a pod; nil is that they
// do not speak of the label, or that one alternative does not.
func wantsOf(pod *v1.Pod) wants {
	var always []condition
	if value, ok := pod.Spec.NodeSelector[api.LabelProduct]; ok {
		always = append(always, condition{v1.NodeSelectorOpIn, []string{value}})
	}
	var out wants
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
				continue // selects nothing
			}
			all := slices.Clone(always)
			for _, e := range term.MatchExpressions {
				if e.Key == api.LabelProduct {
					all = append(all, condition{e.Operator, e.Values})
				}
			}
			out = append(out, all)
		}
	}
	if len(out) == 0 {
		out = wants{always}
	}
	if slices.ContainsFunc(out, func(all []condition) bool { return len(all) == 0 }) {
		return nil
	}
	return out
}

// match reports whether a node with a value of the label can be one that the pod requires;
// "" is that it lacks the label.
func (w wants) match(label string) bool {
	return w == nil || slices.ContainsFunc(w, func(all []condition) bool {
		return !slices.ContainsFunc(all, func(c condition) bool { return !c.holds(label) })
	})
}

// holds reports whether a node with a value of the label meets a condition.
func (c condition) holds(label string) bool {
	switch c.operator {
	case v1.NodeSelectorOpIn:
		return label != "" && slices.Contains(c.values, label)
	case v1.NodeSelectorOpNotIn:
		return label == "" || !slices.Contains(c.values, label)
	case v1.NodeSelectorOpExists:
		return label != ""
	case v1.NodeSelectorOpDoesNotExist:
		return label == ""
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt: // are of numbers
	}
	return false
}

// products lists the products that a pod may use: those that it names, and those of nodes
// that it does not exclude. Nil is any.
func (w wants) products(ways map[string]*way) []string {
	if w == nil {
		return nil
	}
	names := map[string]bool{}
	for _, all := range w {
		for _, c := range all {
			for _, value := range c.values {
				if c.operator == v1.NodeSelectorOpIn && w.match(value) {
					names[productOf(value)] = true
				}
			}
		}
	}
	for _, at := range ways {
		if p := at.offer.Product(); p != "" && w.match(at.offer.ProductLabel()) {
			names[p] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// productOf returns the product that a value of the label names, in label form.
func productOf(label string) string {
	label = gpu.BareLabel(label)
	if p, ok := gpu.Find(label); ok {
		return p.LabelName()
	}
	return label
}

// ProductOf returns the product of a node's GPUs in label form, by its label; "" is none,
// or not known.
func ProductOf(node *v1.Node) string {
	label := node.Labels[api.LabelProduct]
	if label == "" {
		return ""
	}
	return productOf(label)
}
