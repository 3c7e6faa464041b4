package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// syntaxLine is how package yaml begins its errors.
var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// Parse returns the root of the one document in data, which is YAML or JSON; nil
// if it is empty.
func Parse(file string, data []byte) (*yaml.Node, *Error) {
	if b := bytes.TrimSpace(data); len(b) > 0 && b[0] == '{' && json.Valid(b) {
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" ")) // JSON allows tabs, YAML does not
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		if err = dec.Decode(&second); err == nil {
			return nil, &Error{File: file, Line: second.Line, Message: "more than one document", Fix: "keep one, and remove the lines from --- on"}
		}
	}
	if !errors.Is(err, io.EOF) {
		text := err.Error()
		m := syntaxLine.FindStringSubmatch(text)
		line := 0
		if m != nil {
			text = text[len(m[0]):]
			line, _ = strconv.Atoi(m[1])
		}
		return nil, &Error{File: file, Line: line, Message: "not YAML: " + text, Fix: "check indentation, colons and quotes near this line"}
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || IsNull(doc.Content[0]) {
		return nil, nil
	}
	return doc.Content[0], nil
}

// IsNull reports whether n is null or empty.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// Follow returns what an alias stands for.
func Follow(n *yaml.Node) *yaml.Node {
	for i := 0; n != nil && n.Kind == yaml.AliasNode && i < maxDepth; i++ {
		n = n.Alias
	}
	return n
}

// Child returns the key and value of name in a mapping, or nils.
func Child(n *yaml.Node, name string) (key, value *yaml.Node) {
	n = Follow(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Join adds a key to a dotted path.
func Join(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// step matches the first part of a dotted path: a key, an index, or a quoted
// key.
var step = regexp.MustCompile(`^(?:\.?([A-Za-z0-9_-]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\])`)

// Locate returns the line, from 1, of the field at a dotted path such as
// "nodes[2].gpus.product" or `nodes[0].labels["nvidia.com/gpu"]`: the form in
// which Decode names fields. It is for callers that find a value wrong after
// Decode. Where the path is not there, it is the line of the last part that
// is; 0 if data is empty or not YAML.
func Locate(data []byte, path string) int {
	root, err := Parse("", data)
	if err != nil || root == nil {
		return 0
	}
	return Line(root, path)
}

// Line returns the line of the field at a dotted path from n on, as Locate does.
func Line(n *yaml.Node, path string) int {
	line, _ := find(n, path)
	return line
}

// Find returns the value at a dotted path from n on; nil if it is not there.
func Find(n *yaml.Node, path string) *yaml.Node {
	_, value := find(n, path)
	return value
}

// find returns the line of the last part of a path that is there, and the value if all of it is.
func find(n *yaml.Node, path string) (line int, value *yaml.Node) {
	line = n.Line
	for path != "" {
		m := step.FindStringSubmatch(path)
		if m == nil {
			return line, nil
		}
		path = strings.TrimPrefix(path, m[0])
		if m[2] != "" {
			n = Follow(n)
			i, err := strconv.Atoi(m[2])
			if err != nil || n == nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
				return line, nil
			}
			n = n.Content[i]
			line = n.Line
			continue
		}
		name := m[1]
		if m[3] != "" {
			name, _ = strconv.Unquote(m[3])
		}
		key, next := Child(n, name)
		if key == nil {
			return line, nil
		}
		line, n = key.Line, next
	}
	return line, Follow(n)
}
