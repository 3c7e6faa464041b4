package term

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/jsonpath"

	"berth.dev/berth/core/gpu"
)

// Rows are the objects that a command prints: the kind of their list, and one of them, of which only the type matters.
type Rows struct {
	Kind string
	Row  any
}

// Field is a field of the objects that a command prints.
type Field struct {
	Path string // as -o custom-columns takes it: "node", "holders[*].name", "labels.KEY"
	Type string // string, integer, number, boolean, time, or any
}

// mostDepth is how deep fields are listed. It ends types that contain themselves.
const mostDepth = 6

// Fields lists the fields of a row, in the order of its JSON.
func Fields(row any) []Field { return fields("", reflect.TypeOf(row), 0) }

func fields(path string, t reflect.Type, depth int) []Field {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil || depth > mostDepth || t.Kind() == reflect.Interface:
		return []Field{{path, "any"}}
	case t.String() == "time.Time" || t.String() == "v1.Time":
		return []Field{{path, "time"}}
	case opaque(t):
		return []Field{{path, "string"}}
	}
	switch t.Kind() {
	case reflect.Struct:
		var out []Field
		for _, m := range members(t) {
			out = append(out, fields(strings.TrimPrefix(path+"."+m.name, "."), m.of, depth+1)...)
		}
		return out
	case reflect.Slice, reflect.Array:
		return fields(path+"[*]", t.Elem(), depth+1)
	case reflect.Map:
		return fields(path+".KEY", t.Elem(), depth+1)
	case reflect.Bool:
		return []Field{{path, "boolean"}}
	case reflect.Float32, reflect.Float64:
		return []Field{{path, "number"}}
	case reflect.String:
		return []Field{{path, "string"}}
	}
	return []Field{{path, "integer"}}
}

// opaque reports whether a type writes its JSON itself.
func opaque(t reflect.Type) bool {
	own := reflect.TypeFor[json.Marshaler]()
	return t.Implements(own) || reflect.PointerTo(t).Implements(own)
}

// member is a field of a struct as its JSON has it.
type member struct {
	name string
	of   reflect.Type
}

// members are the fields of a struct, those of embedded ones among them.
func members(t reflect.Type) []member {
	var out []member
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			if of.Kind() == reflect.Struct {
				out = append(out, members(of)...)
			}
		case f.IsExported():
			if name == "" {
				name = f.Name
			}
			out = append(out, member{name, f.Type})
		}
	}
	return out
}

// fieldsFormat is the -o that lists fields in place of objects.
const fieldsFormat = "fields"

// addRows says what a command prints: -o fields lists the fields of that, without a cluster, and paths of -o are held to them.
func (f *Output) addRows(cmd *cobra.Command, rows []Rows) {
	f.rows = rows
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[FieldsAnnotation] = fieldsText(rows)
	run, check := cmd.RunE, cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if check == nil || f.Format == fieldsFormat {
			return nil
		}
		return check(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.Format == fieldsFormat && f.template == "" {
			_, err := PrintBlock(cmd.OutOrStdout(), Block(cmd.Annotations[FieldsAnnotation]))
			return err
		}
		return run(cmd, args)
	}
}

// FieldsAnnotation is the annotation of commands with what -o fields prints.
const FieldsAnnotation = "berth.dev/fields"

// fieldsText is a table for each kind.
func fieldsText(rows []Rows) string {
	var b strings.Builder
	for _, r := range rows {
		t := &Table{Head: []string{r.Kind, "TYPE"}, Gap: 2}
		for _, f := range Fields(r.Row) {
			t.Add(f.Path, f.Type)
		}
		_ = t.Write(&b, Screen{}, false) // a strings.Builder takes all
	}
	return b.String()
}

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
