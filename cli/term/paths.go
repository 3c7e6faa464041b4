package term

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"berth.dev/berth/core/gpu"
)

// known refuses the fields of a path that no row has, with the nearest that one has. A path begins at what of returns for a row.
func (f *Output) known(text string, of func(row reflect.Type) reflect.Type) error {
	p, err := jsonpath.Parse("", text)
	if err != nil || len(f.rows) == 0 {
		return nil //nolint:nilerr // printers refuse such a text
	}
	var first error
	for _, r := range f.rows {
		w := walk{root: of(reflect.TypeOf(r.Row))}
		err := w.text(p.Root.Nodes)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// listOf is the type of a list of rows, as Write prints it.
func listOf(row reflect.Type) reflect.Type {
	return reflect.StructOf([]reflect.StructField{
		{Name: "APIVersion", Type: reflect.TypeFor[string](), Tag: `json:"apiVersion"`},
		{Name: "Kind", Type: reflect.TypeFor[string](), Tag: `json:"kind"`},
		{Name: "Items", Type: reflect.SliceOf(row), Tag: `json:"items"`},
		{Name: "Total", Type: reflect.TypeFor[any](), Tag: `json:"total"`},
		{Name: "Pools", Type: reflect.TypeFor[any](), Tag: `json:"pools"`},
	})
}

// walk follows paths through types. A nil type is one of which nothing is known.
type walk struct {
	root   reflect.Type
	ranges []reflect.Type // what the ranges that are open stand in
}

// text follows a template: paths in braces, of which a range is what those up to its end begin in.
func (w *walk) text(nodes []jsonpath.Node) error {
	at := w.root
	for _, node := range nodes {
		braces, is := node.(*jsonpath.ListNode)
		if !is || len(braces.Nodes) == 0 {
			continue
		}
		first, _ := braces.Nodes[0].(*jsonpath.IdentifierNode)
		if last := len(w.ranges) - 1; first != nil && first.Name == "end" && last >= 0 {
			at, w.ranges = w.ranges[last], w.ranges[:last]
			continue
		}
		t, err := w.path(braces.Nodes, at)
		if err != nil {
			return err
		}
		if first != nil && first.Name == "range" {
			w.ranges, at = append(w.ranges, at), t
		}
	}
	return nil
}

// path follows the nodes of a path from a type to another.
func (w *walk) path(nodes []jsonpath.Node, t reflect.Type) (reflect.Type, error) {
	for _, node := range nodes {
		var err error
		if t, err = w.step(node, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// step follows one node.
func (w *walk) step(node jsonpath.Node, t reflect.Type) (reflect.Type, error) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t != nil && (t.Kind() == reflect.Interface || opaque(t)) {
		t = nil
	}
	var element reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map) {
		element = t.Elem()
	}
	switch n := node.(type) {
	case *jsonpath.TextNode, *jsonpath.IntNode, *jsonpath.FloatNode, *jsonpath.BoolNode, *jsonpath.IdentifierNode:
		return t, nil
	case *jsonpath.ListNode:
		return w.path(n.Nodes, t)
	case *jsonpath.FieldNode:
		return w.field(n.Value, t)
	case *jsonpath.ArrayNode, *jsonpath.WildcardNode:
		return element, nil
	case *jsonpath.FilterNode:
		for _, side := range []*jsonpath.ListNode{n.Left, n.Right} {
			if side != nil {
				if _, err := w.path(side.Nodes, element); err != nil {
					return nil, err
				}
			}
		}
		return element, nil
	case *jsonpath.UnionNode:
		for _, one := range n.Nodes {
			if _, err := w.path(one.Nodes, t); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// field is the type of a field, or an error with the nearest name. Within a range it may be one of the root, which "$" names.
func (w *walk) field(name string, t reflect.Type) (reflect.Type, error) {
	if t == nil || name == "" {
		return t, nil
	}
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), nil
	case reflect.Struct:
	default:
		return nil, nil
	}
	names := map[string]reflect.Type{}
	for _, m := range members(t) {
		names[m.name] = m.of
	}
	if of, has := names[name]; has {
		return of, nil
	}
	if t != w.root && w.root != nil && len(w.ranges) > 0 {
		if of, err := (&walk{}).field(name, w.root); err == nil {
			return of, nil
		}
	}
	all := slices.Sorted(maps.Keys(names))
	if near := gpu.NearestWord(name, all); near != "" {
		return nil, fmt.Errorf("there is no field %q; did you mean %q?", name, near)
	}
	return nil, fmt.Errorf("there is no field %q here, only %s; -o fields lists all", name, strings.Join(all, ", "))
}
