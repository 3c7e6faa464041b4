// Package lint finds in manifests what keeps pods from using GPUs, or does something other than it says,
// before they are applied. It knows no cluster: Check is a function of the text.
package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/internal/strictyaml"
	"berth.dev/berth/kube/can"
)

// Finding is what was found at one place.
type Finding struct {
	finding.Finding
	File   string `json:"file"`
	Line   int    `json:"line"`             // from 1
	Object string `json:"object,omitempty"` // such as "Job train"; "" is the whole document
	Field  string `json:"field,omitempty"`  // dotted path in the object; "" is the whole object
}

// Reader is what reads what lint itself does not know.
type Reader struct {
	PluginConfig PluginConfig // nil: such configurations are not read
}

// PluginConfig reads a configuration of NVIDIA's device plugin; the strings are warnings.
type PluginConfig = func(name string, data []byte) (gpu.Sharing, []string, error)

// Check returns the findings of a file of YAML or JSON, with any number of documents, in the order of
// their lines. Equal text gives equal findings. A document that is no YAML costs only itself. Of Markdown and shell
// scripts it reads the blocks of YAML and of PromQL, what commands hand to kubectl, and the commands.
func Check(file string, data []byte, r Reader) []Finding {
	f := &manifests{file: file, read: r, left: mostNodes}
	blocks, is := document(file, data)
	if !is {
		f.documents(data)
	}
	for _, b := range blocks {
		switch b.language {
		case "sh", "prose":
		case "promql":
			f.queries(b)
		default:
			f.documents([]byte(b.text))
		}
	}
	for _, b := range blocks { // commands name objects of other blocks
		if b.language == "sh" {
			f.shell(b)
		}
		if b.language == "sh" || b.language == "prose" {
			f.prose(b)
		}
	}
	for _, o := range f.objects {
		o.check()
	}
	f.together()
	slices.SortStableFunc(f.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field), cmp.Compare(rank[a.Status], rank[b.Status]), cmp.Compare(a.Name, b.Name))
	})
	return f.found
}

// documents collects the objects of documents of YAML.
func (f *manifests) documents(data []byte) {
	for _, text := range strictyaml.Split(data) {
		root, err := strictyaml.Parse(f.file, text)
		if err != nil {
			f.add(Finding{Finding: fail("syntax", err.Message, err.Fix), File: f.file, Line: err.Line})
			continue
		}
		if root != nil {
			f.collect(root, text)
		}
	}
}

// rank orders what is said of one place.
var rank = map[finding.Status]int{finding.Fail: 0, finding.Warn: 1, finding.OK: 2}

// manifests is the objects of a file.
type manifests struct {
	file    string
	read    Reader
	objects []*object
	found   []Finding
	left    int // nodes that may still be visited: aliases can name one many times
}

// mostNodes is how many nodes of a file are looked at.
const mostNodes = 1_000_000

// object is one object of a file.
type object struct {
	in                     *manifests
	root                   *yaml.Node
	text                   []byte // of its document
	apiVersion, kind, name string
}

// mostDepth is how deep Lists may stand in Lists.
const mostDepth = 4

// collect takes the object of a document, or those of a List.
func (f *manifests) collect(root *yaml.Node, text []byte) { f.collectAt(root, text, 0) }

func (f *manifests) collectAt(root *yaml.Node, text []byte, depth int) {
	o := &object{in: f, root: root, text: text, apiVersion: textAt(root, "apiVersion"), kind: textAt(root, "kind")}
	if meta := at(root, "metadata"); meta != nil {
		o.name = cmp.Or(textAt(meta, "name"), textAt(meta, "generateName"))
	}
	items := at(root, "items")
	if o.kind == "List" && items != nil && items.Kind == yaml.SequenceNode && depth < mostDepth {
		for _, item := range items.Content {
			f.collectAt(strictyaml.Follow(item), text, depth+1)
		}
		return
	}
	if root.Kind == yaml.MappingNode {
		f.objects = append(f.objects, o)
	}
}

func (f *manifests) add(one Finding) {
	if !slices.Contains(f.found, one) {
		f.found = append(f.found, one)
	}
}

// say adds a finding at a field of an object.
func (o *object) say(field string, what finding.Finding) { o.sayAt(0, field, what) }

// sayAt is say, with the line of the file; 0 is that of the field.
func (o *object) sayAt(line int, field string, what finding.Finding) {
	title := o.kind
	if o.name != "" {
		title += " " + o.name
	}
	o.in.add(Finding{Finding: what, File: o.in.file, Line: cmp.Or(line, strictyaml.Line(o.root, field)), Object: title, Field: field})
}

// check applies the rules of its kind, and those of every pod and request in it.
func (o *object) check() {
	if o.kind == "" && at(o.root, "sharing") != nil {
		o.pluginFile()
		return
	}
	o.unknownFields()
	group, _, versioned := strings.Cut(o.apiVersion, "/")
	if said := can.NotRun(schema.GroupKind{Group: group, Kind: o.kind}); said != "" && versioned {
		o.say("kind", ok("kind-not-run", said))
	}
	if rule := kinds[o.kind]; rule != nil {
		rule(o)
	}
	o.walk(o.root, "", 0)
}

// walk visits each mapping of the object: whatever has containers is the spec of a pod, and
// whatever has limits or requests is what a container asks for, in any kind.
func (o *object) walk(n *yaml.Node, path string, depth int) {
	n = strictyaml.Follow(n)
	if o.in.left--; n == nil || depth > mostWalk || o.in.left < 0 {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		if list := at(n, "containers"); list != nil && list.Kind == yaml.SequenceNode {
			o.pod(n, path)
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			switch value := strictyaml.Follow(n.Content[i+1]); {
			case key == "resources":
				o.resources(n.Content[i+1], strictyaml.Join(path, key))
			case key == exprKey && value != nil && value.Kind == yaml.ScalarNode:
				o.query(0, strictyaml.Join(path, key), value.Value)
			}
			o.walk(n.Content[i+1], strictyaml.Join(path, key), depth+1)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			o.walk(item, fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
	case yaml.ScalarNode:
		o.metricNames(n, path)
	case yaml.DocumentNode, yaml.AliasNode: // neither is in an object
	}
}

// mostWalk is how deep objects are looked into.
const mostWalk = 40

// at returns the value at keys, or nil.
func at(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		if n == nil {
			return nil
		}
		_, n = strictyaml.Child(n, key)
	}
	return strictyaml.Follow(n)
}

// nodes returns what is in a list; nil for anything else.
func nodes(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// textAt returns the scalar at keys, or "".
func textAt(n *yaml.Node, keys ...string) string {
	if v := at(n, keys...); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

func fail(name, seen, do string) finding.Finding {
	return finding.Finding{Name: name, Status: finding.Fail, Seen: seen, Do: do}
}

func warn(name, seen, do string) finding.Finding {
	return finding.Finding{Name: name, Status: finding.Warn, Seen: seen, Do: do}
}

func ok(name, seen string) finding.Finding {
	return finding.Finding{Name: name, Status: finding.OK, Seen: seen}
}
