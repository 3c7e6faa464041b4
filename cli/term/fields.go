package term

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
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
	default:
		return []Field{{path, "integer"}}
	}
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
