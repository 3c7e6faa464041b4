package queues

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	operators "k8s.io/apimachinery/pkg/selection"

	"berth.dev/berth/api"
)

// mostEntries is how many entries of a map one expression has: the API server reads 100,000 characters of
// each.
const mostEntries = 500

// variables are QueueOf as an admission policy finds it: queue, the queue that the pod enters. What the
// pod and its namespace say is read from them as they are when the pod is created.
func (m *Members) variables() []admissionv1.Variable {
	var named, selected, takes []string
	for _, namespace := range sortedKeys(m.named) {
		named = append(named, quoted(namespace)+": "+quoted(m.named[namespace]))
	}
	for _, s := range m.selects {
		selected = append(selected, fmt.Sprintf("%s ? %s : ''", selectorExpression(s.selector), quoted(s.queue)))
	}
	for _, name := range sortedKeys(m.queues) {
		if n := m.queues[name].Spec.Namespaces; n != nil && len(n.LabeledPods) > 0 {
			takes = append(takes, quoted(name)+": "+listed(n.LabeledPods))
		}
	}
	out := []admissionv1.Variable{
		{Name: "space", Expression: "namespaceObject.metadata.name"},
		{Name: "labels", Expression: "has(namespaceObject.metadata.labels) ? namespaceObject.metadata.labels : {}"},
		{Name: "label", Expression: fmt.Sprintf("'%[1]s' in variables.labels ? variables.labels['%[1]s'] : ''", api.LabelQueue)},
	}
	names, name := lookUp("named", named, "variables.space", "''")
	out = append(out, names...)
	out = append(out, admissionv1.Variable{Name: "name", Expression: name})
	takers, taken := lookUp("takes", takes, "variables.asked", "[]")
	out = append(out,
		admissionv1.Variable{Name: "selected", Expression: "[" + strings.Join(selected, ", ") + "].filter(q, q != '')"},
		admissionv1.Variable{Name: "usual", Expression: fmt.Sprintf("variables.label != '' ? variables.label : variables.name != '' ? variables.name : size(variables.selected) > 0 ? variables.selected[0] : %s", quoted(m.usual))},
		admissionv1.Variable{Name: "asked", Expression: m.asked()})
	out = append(out, takers...)
	return append(out,
		admissionv1.Variable{Name: "taken", Expression: taken},
		admissionv1.Variable{Name: "queue", Expression: "variables.space in variables.taken || '*' in variables.taken ? variables.asked : variables.usual"})
}

// asked is the queue that the pod itself names.
func (m *Members) asked() string {
	out := "''"
	for _, k := range slices.Backward(keys) {
		if one := said(k.in(), k.name); !k.kueue || m.around.Kueue == nil || !m.around.Kueue() {
			out = fmt.Sprintf("(%[1]s != '' ? %[1]s : %[2]s)", one, out)
		}
	}
	return out
}

// selectorExpression reports whether the labels of the namespace match a selector.
func selectorExpression(s labels.Selector) string {
	all, selectable := s.Requirements()
	if !selectable {
		return "false"
	}
	parts := []string{"true"}
	for _, r := range all {
		key := quoted(r.Key())
		has := fmt.Sprintf("%s in variables.labels", key)
		is := fmt.Sprintf("(%s && variables.labels[%s] in %s)", has, key, listed(slices.Sorted(maps.Keys(r.Values()))))
		switch r.Operator() {
		case operators.In, operators.Equals, operators.DoubleEquals:
			parts = append(parts, is)
		case operators.NotIn, operators.NotEquals:
			parts = append(parts, "!"+is)
		case operators.Exists:
			parts = append(parts, "("+has+")")
		case operators.DoesNotExist:
			parts = append(parts, "!("+has+")")
		default: // a LabelSelector has no other
			return "false"
		}
	}
	return strings.Join(parts, " && ")
}

// lookUp returns variables with the entries of a map, as "'a': 1", and the expression for what it has
// at a key, or what it has for none.
func lookUp(name string, entries []string, key, none string) (parts []admissionv1.Variable, find string) {
	find = none
	for some := range slices.Chunk(entries, mostEntries) {
		v := fmt.Sprintf("%s%d", name, len(parts))
		parts = append(parts, admissionv1.Variable{Name: v, Expression: "{" + strings.Join(some, ", ") + "}"})
		find = fmt.Sprintf("%[1]s in variables.%[2]s ? variables.%[2]s[%[1]s] : %[3]s", key, v, find)
	}
	return parts, find
}

// quoted writes a text as one of the expression language.
func quoted(text string) string { return strconv.QuoteToASCII(text) }

// listed writes a list of texts.
func listed(list []string) string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = quoted(text)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// sortedKeys are the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
