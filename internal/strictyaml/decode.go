package strictyaml

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"berth.dev/berth/core/gpu"
)

const (
	maxDepth  = 100     // of values inside values; an alias of itself has no end
	maxValues = 200_000 // aliases can make a short file a huge value
)

// Decode reads the one YAML or JSON document in data into a struct, which into
// points to. Fields are named by their tag json:"name"; those without are not
// read. It handles structs (also embedded), maps with string keys, slices,
// pointers, strings, bools (also YAML 1.1's yes, no, on, off), integers,
// floats, any, and time.Duration written as "90s". A field of type yaml.Node
// takes any value as it stands, lines and all. null and absent leave a field
// as it is, so into may hold defaults; an empty document leaves all.
//
// The error is an *Error: a field that is not known, with the nearest that is;
// a value of another type; a key given twice; a second document; or no YAML at
// all. into may be half filled then.
//
// Decode panics if into is not a pointer, or holds another type: that is a bug
// in the caller.
func Decode(file string, data []byte, into any) error {
	root, err := Parse(file, data)
	if err != nil {
		return err
	}
	if root == nil {
		return nil
	}
	if err := NewDecoder(file).Decode(root, "", into); err != nil {
		return err
	}
	return nil
}

// A Decoder reads the parts of one document, within limits for all of them
// together.
type Decoder struct {
	file string
	left int // values that may still be read
}

// NewDecoder returns a decoder whose errors name file.
func NewDecoder(file string) *Decoder { return &Decoder{file: file, left: maxValues} }

// Decode reads n, which is at a dotted path, into what into points to, as the func
// Decode reads a document.
func (d *Decoder) Decode(n *yaml.Node, path string, into any) *Error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		panic(fmt.Sprintf("strictyaml.Decode: into is a %T, not a pointer", into))
	}
	return d.value(n, n.Line, v.Elem(), path, 0)
}

func (d *Decoder) fail(line int, path, message, fix string) *Error {
	return &Error{File: d.file, Line: line, Field: path, Message: message, Fix: fix}
}

// tooMany refuses a document that is longer or deeper than any that is meant.
func (d *Decoder) tooMany(line int, path string) *Error {
	return d.fail(line, path, "too many values, or too deep", "replace the aliases (*name) with what they stand for")
}

var (
	nodeType     = reflect.TypeFor[yaml.Node]()
	durationType = reflect.TypeFor[time.Duration]()
)

// value reads n, whose key stands at line, into v.
func (d *Decoder) value(n *yaml.Node, line int, v reflect.Value, path string, depth int) *Error {
	d.left--
	if depth > maxDepth || d.left < 0 {
		return d.tooMany(line, path)
	}
	n = Follow(n)
	if n == nil || n.Kind == yaml.AliasNode || IsNull(n) {
		return nil
	}
	if v.Type() == nodeType {
		v.Set(reflect.ValueOf(*n))
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return d.value(n, line, v.Elem(), path, depth+1)
	case reflect.Struct:
		return d.object(n, line, v, path, depth)
	case reflect.Map:
		return d.mapping(n, line, v, path, depth)
	case reflect.Slice:
		return d.list(n, line, v, path, depth)
	case reflect.Interface:
		var x any
		if err := n.Decode(&x); err != nil {
			return d.fail(line, path, strings.TrimPrefix(err.Error(), "yaml: "), "")
		}
		if x != nil {
			v.Set(reflect.ValueOf(x))
		}
		return nil
	default:
		return d.scalar(n, line, v, path)
	}
}

// keys checks that n is a mapping of distinct plain keys.
func (d *Decoder) keys(n *yaml.Node, line int, path string) *Error {
	if n.Kind != yaml.MappingNode {
		return d.wrong(n, line, path, "a mapping (key: value)")
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode {
			return d.fail(k.Line, path, "a key that is not plain text", "write name: value")
		}
		if first, ok := seen[k.Value]; ok {
			return d.fail(k.Line, Join(path, k.Value), "given twice, first at line "+strconv.Itoa(first), "keep one")
		}
		seen[k.Value] = k.Line
	}
	return nil
}

func (d *Decoder) object(n *yaml.Node, line int, v reflect.Value, path string, depth int) *Error {
	if err := d.keys(n, line, path); err != nil {
		return err
	}
	names, fields := structFields(v)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		f, ok := fields[k.Value]
		if !ok {
			fix := "known fields are " + strings.Join(names, ", ")
			if near := gpu.NearestWord(k.Value, names); near != "" {
				fix = fmt.Sprintf("did you mean %q?", near)
			}
			return d.fail(k.Line, Join(path, k.Value), "unknown field", fix)
		}
		if err := d.value(n.Content[i+1], k.Line, f, Join(path, k.Value), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// structFields returns the fields of a struct that have a json name, and the
// names in order.
func structFields(v reflect.Value) (names []string, fields map[string]reflect.Value) {
	fields = map[string]reflect.Value{}
	for i := range v.NumField() {
		t := v.Type().Field(i)
		name, _, _ := strings.Cut(t.Tag.Get("json"), ",")
		switch {
		case t.Anonymous && name == "" && t.Type.Kind() == reflect.Struct:
			inner, of := structFields(v.Field(i))
			for _, n := range inner {
				fields[n] = of[n]
			}
			names = append(names, inner...)
		case name != "" && name != "-" && t.IsExported():
			names, fields[name] = append(names, name), v.Field(i)
		}
	}
	return names, fields
}

func (d *Decoder) mapping(n *yaml.Node, line int, v reflect.Value, path string, depth int) *Error {
	if err := d.keys(n, line, path); err != nil {
		return err
	}
	if len(n.Content)/2 > d.left {
		return d.tooMany(line, path)
	}
	t := v.Type()
	out := reflect.MakeMapWithSize(t, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, e := n.Content[i], reflect.New(t.Elem()).Elem()
		if err := d.value(n.Content[i+1], k.Line, e, Join(path, k.Value), depth+1); err != nil {
			return err
		}
		out.SetMapIndex(reflect.ValueOf(k.Value).Convert(t.Key()), e)
	}
	v.Set(out)
	return nil
}

func (d *Decoder) list(n *yaml.Node, line int, v reflect.Value, path string, depth int) *Error {
	if n.Kind != yaml.SequenceNode {
		return d.wrong(n, line, path, "a list ([a, b], or lines that start with -)")
	}
	if len(n.Content) > d.left {
		return d.tooMany(line, path)
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		if err := d.value(c, c.Line, out.Index(i), path+"["+strconv.Itoa(i)+"]", depth+1); err != nil {
			return err
		}
	}
	v.Set(out)
	return nil
}

// wrong says that n is not what it must be.
func (d *Decoder) wrong(n *yaml.Node, line int, path, want string) *Error {
	return d.fail(line, path, "must be "+want+", found "+Found(n), "")
}

// Found describes a value in a few words.
func Found(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default: // its text
	}
	text := n.Value
	if r := []rune(text); len(r) > 40 {
		text = string(r[:40]) + "..."
	}
	if n.ShortTag() == "!!str" {
		return strconv.Quote(text)
	}
	return text
}
