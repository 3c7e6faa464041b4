package strictyaml

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// scalar reads a single value.
func (d *Decoder) scalar(n *yaml.Node, line int, v reflect.Value, path string) *Error {
	switch {
	case v.Type() == durationType:
		t, err := time.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			return d.wrong(n, line, path, `a duration such as "90s"`)
		}
		v.SetInt(int64(t))
	case v.Kind() == reflect.String:
		return d.text(n, line, v, path)
	case v.Kind() == reflect.Bool:
		b, ok := boolean(n)
		if !ok {
			return d.wrong(n, line, path, "true or false")
		}
		v.SetBool(b)
	case v.CanInt():
		var i int64
		if n.ShortTag() != "!!int" || n.Decode(&i) != nil || v.OverflowInt(i) {
			return d.wrong(n, line, path, "a whole number")
		}
		v.SetInt(i)
	case v.CanUint():
		var u uint64
		if n.ShortTag() != "!!int" || n.Decode(&u) != nil || v.OverflowUint(u) {
			return d.wrong(n, line, path, "a whole number, 0 or more")
		}
		v.SetUint(u)
	case v.CanFloat():
		var f float64
		if t := n.ShortTag(); t != "!!int" && t != "!!float" || n.Decode(&f) != nil || v.OverflowFloat(f) {
			return d.wrong(n, line, path, "a number")
		}
		v.SetFloat(f)
	default:
		panic("strictyaml.Decode: cannot read into " + v.Type().String() + " at " + path)
	}
	return nil
}

// text reads a string. A plain 1.10 is a number to YAML, and would lose its
// zero: it has to be quoted.
func (d *Decoder) text(n *yaml.Node, line int, v reflect.Value, path string) *Error {
	if n.Kind != yaml.ScalarNode {
		return d.wrong(n, line, path, "text")
	}
	// Without a schema's help, YAML reads 2026-11-20 as a time; text is what is meant.
	if t := n.ShortTag(); t != "!!str" && t != "!!timestamp" {
		err := d.wrong(n, line, path, "text")
		err.Fix = "write it in quotes: " + strconv.Quote(n.Value)
		return err
	}
	v.SetString(n.Value)
	return nil
}

// boolean reads true and false, and what YAML 1.1 has for them, which
// Kubernetes' tools read so too.
func boolean(n *yaml.Node) (value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return false, false
	}
	switch strings.ToLower(n.Value) {
	case "true", "yes", "on", "y":
		return true, true
	case "false", "no", "off", "n":
		return false, true
	}
	return false, false
}
