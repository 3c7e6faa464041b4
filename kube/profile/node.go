package profile

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// mostNodes bounds how many values are read, with those of aliases, so that a
	// file of a few lines that refers to itself over and over ends in an error.
	mostNodes = 200_000
	// deepest bounds how deep values are nested.
	deepest = 64
)

// lineError is what is wrong on a line.
type lineError struct {
	line int
	key  string
	text string
}

// Error names the line.
func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s: %s", e.line, e.key, e.text) }

func wrongAt(n *yaml.Node, key, format string, args ...any) error {
	return &lineError{line: n.Line, key: key, text: fmt.Sprintf(format, args...)}
}

// walker turns YAML into plain values.
type walker struct {
	left  int // of mostNodes
	depth int
	own   func(line int) int // the line in its file
}

// enter counts a value, and is undone by leave.
func (w *walker) enter(n *yaml.Node, key string) error {
	w.left--
	w.depth++
	switch {
	case w.left < 0:
		return wrongAt(n, key, "the file has more than %d values, with those of its aliases", mostNodes)
	case w.depth > deepest:
		return wrongAt(n, key, "values are nested deeper than %d, or an alias refers to itself", deepest)
	}
	return nil
}

func (w *walker) leave() { w.depth-- }

// target follows aliases.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// pair is one entry of a mapping.
type pair struct {
	key   string
	at    *yaml.Node // the key
	value *yaml.Node
}

// pairs returns the entries of a mapping in order. What << merges comes first, and
// what the mapping says itself goes before it, in its place. A key that is there
// twice is an error.
func (w *walker) pairs(n *yaml.Node, path string) ([]pair, error) {
	n = target(n)
	if n.Kind != yaml.MappingNode {
		return nil, wrongAt(n, path, "it must be a mapping")
	}
	if err := w.enter(n, path); err != nil {
		return nil, err
	}
	defer w.leave()
	var merged, own []pair
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.ScalarNode && k.ShortTag() == "!!merge" {
			more, err := w.merge(v, path)
			if err != nil {
				return nil, err
			}
			merged = append(merged, more...)
			continue
		}
		if k = target(k); k.Kind != yaml.ScalarNode {
			return nil, wrongAt(k, path, "a key must be a text")
		}
		if line := lines[k.Value]; line > 0 {
			return nil, wrongAt(k, join(path, k.Value), "the key is there twice, first on line %d", w.own(line))
		}
		lines[k.Value] = k.Line
		own = append(own, pair{k.Value, k, v})
	}
	return overlay(merged, own), nil
}

// merge returns what << brings: a mapping's entries, or those of a list of
// mappings, of which the first goes before the others.
func (w *walker) merge(n *yaml.Node, path string) ([]pair, error) {
	n = target(n)
	if n.Kind != yaml.SequenceNode {
		return w.pairs(n, path)
	}
	var out []pair
	for _, v := range slices.Backward(n.Content) {
		more, err := w.pairs(v, path)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// overlay joins entries; of several with a key the last counts, in the place of
// the first.
func overlay(lists ...[]pair) []pair {
	var out []pair
	at := map[string]int{}
	for _, list := range lists {
		for _, p := range list {
			if i, there := at[p.key]; there {
				out[i] = p
				continue
			}
			at[p.key] = len(out)
			out = append(out, p)
		}
	}
	return out
}

// value turns n into a plain value and notes in lines where each key stands, by
// its path.
func (w *walker) value(n *yaml.Node, path string, lines map[string]int) (any, error) {
	n = target(n)
	if err := w.enter(n, path); err != nil {
		return nil, err
	}
	defer w.leave()
	if n.Kind == yaml.SequenceNode {
		out := make([]any, len(n.Content))
		for i, each := range n.Content {
			var err error
			if out[i], err = w.value(each, fmt.Sprintf("%s[%d]", path, i), lines); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	if n.Kind != yaml.MappingNode {
		return scalar(n, path)
	}
	list, err := w.pairs(n, path)
	if err != nil {
		return nil, err
	}
	out := make(map[string]any, len(list))
	for _, p := range list {
		key := join(path, p.key)
		lines[key] = p.at.Line
		if out[p.key], err = w.value(p.value, key, lines); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scalar returns the value of a scalar. As for Helm, a date is a text, and yes, no,
// on and off without quotes are true and false.
func scalar(n *yaml.Node, path string) (any, error) {
	switch tag := n.ShortTag(); tag {
	case "!!null":
		return nil, nil
	case "!!str":
		if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
			switch strings.ToLower(n.Value) {
			case "yes", "on":
				return true, nil
			case "no", "off":
				return false, nil
			}
		}
		return n.Value, nil
	case "!!timestamp":
		return n.Value, nil
	case "!!binary":
		raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil {
			return nil, wrongAt(n, path, "it is no base64: %v", err)
		}
		return string(raw), nil
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, wrongAt(n, path, "%q is no value of %s", n.Value, tag)
		}
		return number(n, path, v)
	default:
		return nil, wrongAt(n, path, "values of %s are not read", tag)
	}
}

// number makes numbers int64 where they are whole and fit, else float64.
func number(n *yaml.Node, path string, v any) (any, error) {
	switch v := v.(type) {
	case int:
		return int64(v), nil
	case uint64:
		return float64(v), nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, wrongAt(n, path, "%s is not a number", n.Value)
		}
	}
	return v, nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
