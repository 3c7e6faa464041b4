package queueimport

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// object is one that Queues are made of, with its fields that were read.
type object struct {
	*unstructured.Unstructured
	read  []string // paths; what is below them is read as well
	notes *[]Note
}

// String names the object as kubectl does.
func (o *object) String() string {
	name := strings.ToLower(o.GetKind()) + "/" + o.GetName()
	if o.GetNamespace() != "" {
		name += " -n " + o.GetNamespace()
	}
	return name
}

func (o *object) note(field, format string, args ...any) {
	*o.notes = append(*o.notes, Note{o.String(), field, fmt.Sprintf(format, args...)})
}

// get returns a field and marks it as read; nil is that there is none.
func (o *object) get(path ...string) any {
	o.read = append(o.read, strings.Join(path, "."))
	var at any = o.Object
	for _, name := range path {
		fields, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = fields[name]
	}
	return at
}

func (o *object) text(path ...string) string {
	s, _ := o.get(path...).(string)
	return s
}

// amount returns a quantity; nil is that there is none.
func (o *object) amount(path ...string) (*resource.Quantity, error) {
	return o.parse(strings.Join(path, "."), o.get(path...))
}

// parse reads a quantity or a number.
func (o *object) parse(field string, v any) (*resource.Quantity, error) {
	if v == nil {
		return nil, nil
	}
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return nil, fmt.Errorf("%s: %s is %v; it must be a number", o, field, v)
	}
	return &q, nil
}

// items are the maps of a list.
func items(list any) []map[string]any {
	all, _ := list.([]any)
	var out []map[string]any
	for _, one := range all {
		if fields, ok := one.(map[string]any); ok {
			out = append(out, fields)
		}
	}
	return out
}

// rest notes every field of the spec that was not read. why has reasons by the beginnings of paths.
func (o *object) rest(why map[string]string) {
	spec, _ := o.Object["spec"].(map[string]any)
	o.walk("spec", spec, why)
}

func (o *object) walk(path string, fields map[string]any, why map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := path + "." + name
		if slices.ContainsFunc(o.read, func(r string) bool { return at == r || strings.HasPrefix(at, r+".") }) {
			continue
		}
		reason, known := why[at]
		partly := slices.ContainsFunc(o.read, func(r string) bool { return strings.HasPrefix(r, at+".") })
		if below, ok := fields[name].(map[string]any); ok && len(below) > 0 && (partly || !known) {
			o.walk(at, below, why)
			continue
		}
		if !known {
			reason = "Queues have nothing like it"
		}
		o.note(at, "not carried over: %s", reason)
	}
}
