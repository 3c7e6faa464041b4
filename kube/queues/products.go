package queues

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/quota"
)

// wants is what a pod requires of the labels of its node by which GPUs are counted: one of
// alternatives, each of which is conditions that hold together. Other labels are taken to be as they
// should.
type wants [][]condition

// condition is one requirement of the value of a label.
type condition struct {
	key      string
	operator v1.NodeSelectorOperator
	values   []string
}

// wantsOf reads the node selector and the required node affinity of a pod, as far as they are about
// labels with these keys; nil is that they are not, or that one alternative is not.
func wantsOf(pod *v1.Pod, keys []string) wants {
	var always []condition
	for _, key := range keys {
		if value, ok := pod.Spec.NodeSelector[key]; ok {
			always = append(always, condition{key, v1.NodeSelectorOpIn, []string{value}})
		}
	}
	var out wants
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
				continue // selects nothing
			}
			all := slices.Clone(always)
			for _, e := range term.MatchExpressions {
				if slices.Contains(keys, e.Key) {
					all = append(all, condition{e.Key, e.Operator, e.Values})
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

// match reports whether a node with labels can be one that the pod requires.
func (w wants) match(labels map[string]string) bool {
	return w == nil || slices.ContainsFunc(w, func(all []condition) bool {
		return !slices.ContainsFunc(all, func(c condition) bool {
			value, there := labels[c.key]
			return !c.holds(value, there)
		})
	})
}

// holds reports whether a node that has a value of the label, or lacks it, meets a condition. The
// product of a node without GPUs may be "": that is as good as none.
func (c condition) holds(value string, there bool) bool {
	there = there && (value != "" || c.key != api.LabelProduct)
	switch c.operator {
	case v1.NodeSelectorOpIn:
		return there && slices.Contains(c.values, value)
	case v1.NodeSelectorOpNotIn:
		return !there || !slices.Contains(c.values, value)
	case v1.NodeSelectorOpExists:
		return there
	case v1.NodeSelectorOpDoesNotExist:
		return !there
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt: // are of numbers
	}
	return false
}

// kinds lists the kinds of GPUs that a pod may use: those of the ways in which nodes offer them, and
// those that it names and no node has. labels are those that quotas name.
func (w wants) kinds(ways []*way, labels []string) []quota.Kind {
	out := make([]quota.Kind, 0, len(ways)+1)
	for _, at := range ways {
		out = append(out, at.kind)
	}
	there := out
	for _, all := range w {
		for _, k := range named(all, labels) {
			if !has(there, k) {
				out = append(out, k)
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	slices.SortFunc(out, compareKinds)
	return slices.Compact(out)
}

// mostNamed bounds the kinds that one alternative names.
const mostNamed = 64

// named lists the kinds that conditions name by values of labels.
func named(all []condition, labels []string) []quota.Kind {
	list := []map[string]string{{}}
	for i, c := range all {
		if c.operator != v1.NodeSelectorOpIn || slices.ContainsFunc(all[:i], func(o condition) bool { return o.key == c.key && o.operator == c.operator }) {
			continue
		}
		var next []map[string]string
		for _, had := range list {
			for _, value := range c.values {
				if slices.ContainsFunc(all, func(o condition) bool { return o.key == c.key && !o.holds(value, true) }) || len(next) == mostNamed {
					continue
				}
				more := maps.Clone(had)
				more[c.key] = value
				next = append(next, more)
			}
		}
		list = next
	}
	var out []quota.Kind
	for _, values := range list {
		of := func(key string) (string, bool) {
			value, there := values[key]
			return value, there
		}
		k := quota.Kind{Labels: joined(labels, of)}
		if label := values[api.LabelProduct]; label != "" {
			k.Product = productOf(label)
		}
		if k != (quota.Kind{}) {
			out = append(out, k)
		}
	}
	return out
}

// has reports whether one of kinds is one that is named: it has the product and all of the labels.
func has(kinds []quota.Kind, named quota.Kind) bool {
	for _, k := range kinds {
		if (named.Product == "" || k.Product == named.Product) && !slices.ContainsFunc(strings.Split(named.Labels, ","), func(label string) bool {
			return label != "" && !k.Is(quota.Resource(label))
		}) {
			return true
		}
	}
	return false
}

// compareKinds orders kinds by product and labels.
func compareKinds(a, b quota.Kind) int {
	return cmp.Or(strings.Compare(a.Product, b.Product), strings.Compare(a.Labels, b.Labels))
}

// productOf returns the product that a value of the label names, in label form.
func productOf(label string) string {
	label = gpu.BareLabel(label)
	if p, ok := gpu.Find(label); ok {
		return p.LabelName()
	}
	return label
}
