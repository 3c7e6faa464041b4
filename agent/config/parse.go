package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/internal/strictyaml"
)

// Parse reads NVIDIA's device plugin configuration, version v1, from YAML or
// JSON. name is the file's, or ConfigMap's and key's, for messages.
//
// MIGStrategy is "" where the file does not set it; then the plugin's
// environment decides. The second result is warnings, one sentence each: what
// the plugin reads and ignores, and what can have no effect.
//
// The error is an *strictyaml.Error, in the plugin's words where it would refuse too.
// Parse is stricter in three ways: it refuses fields that are not known, the
// same resource twice, and timeSlicing beside mps, which would silently win.
// Limits that depend on the node's GPUs are Check's.
func Parse(name string, data []byte) (gpu.Sharing, []string, error) {
	s, warnings, err := ParseSettings(name, data)
	return s.Sharing, warnings, err
}

// ParseNode is Parse of a document that is part of another file, as a field
// of type yaml.Node that Decode has filled; lines are those of that file. nil
// and an empty node are an empty document.
func ParseNode(name string, doc *yaml.Node) (gpu.Sharing, []string, error) {
	p, err := read(name, doc, nil)
	if err != nil {
		return gpu.Sharing{}, nil, err
	}
	return p.out.Sharing, p.warnings, nil
}

// read checks a document, nil for none, with values over it, and fills in
// defaults.
func read(name string, doc *yaml.Node, over []Value) (*parser, *strictyaml.Error) {
	if doc != nil && doc.Kind == yaml.DocumentNode && len(doc.Content) > 0 {
		doc = doc.Content[0]
	}
	if doc == nil || doc.IsZero() || doc.Kind == yaml.DocumentNode {
		doc = &yaml.Node{Kind: yaml.MappingNode}
	}
	p := &parser{file: name, root: doc, doc: defaults(), from: map[string]string{}}
	// First what is wrong most often, before the field replicas, which does
	// not belong there, is called unknown.
	for _, kind := range []string{"timeSlicing", "mps"} {
		if err := p.noResources(kind); err != nil {
			return nil, err
		}
	}
	if err := strictyaml.NewDecoder(name).Decode(doc, "", &p.doc); err != nil {
		return nil, err
	}
	if err := p.override(over); err != nil {
		return nil, err
	}
	for _, check := range []func() *strictyaml.Error{p.version, p.flags, p.plugin, p.ignored, p.imex, p.sharing} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Check reports whether the GPUs of n can be shared as s says, in the words of
// NVIDIA's device plugin: MPS with MIG or with too many replicas, and MIG
// devices that strategy single cannot offer. It is sharing.Check.
func Check(s gpu.Sharing, n gpu.Node) error { return sharing.Check(n.GPUs, s) }

type parser struct {
	file     string
	root     *yaml.Node
	doc      document
	out      Settings
	warnings []string
	from     map[string]string // who set the field at a path over the file
}

// fail refuses the field at a path, or what was set over it.
func (p *parser) fail(path, message, fix string) *strictyaml.Error {
	if from := p.from[path]; from != "" {
		return &strictyaml.Error{File: from, Message: message, Fix: fix}
	}
	return &strictyaml.Error{File: p.file, Line: strictyaml.Line(p.root, path), Field: path, Message: message, Fix: fix}
}

// warn notes a warning about the field at a path.
func (p *parser) warn(path, message, fix string) {
	p.warnings = append(p.warnings, p.fail(path, message, fix).Error())
}

// oneOf refuses a value that is not allowed; "" always is.
func (p *parser) oneOf(path, message, value string, allowed ...string) *strictyaml.Error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	fix := "use " + strings.Join(allowed[:len(allowed)-1], ", ") + " or " + allowed[len(allowed)-1]
	if near := gpu.NearestWord(value, allowed); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	return p.fail(path, message+": "+value, fix)
}

func (p *parser) version() *strictyaml.Error {
	if v := p.doc.Version; v != "" && v != "v1" {
		return p.fail("version", "unknown version: "+v, "write version: v1")
	}
	return nil
}

// ignored checks resources, which the plugin reads and then leaves aside.
func (p *parser) ignored() *strictyaml.Error {
	for _, list := range []struct {
		name string
		of   []pattern
	}{{"gpus", p.doc.Resources.GPUs}, {"mig", p.doc.Resources.MIG}} {
		for i, r := range list.of {
			path := fmt.Sprintf("resources.%s[%d]", list.name, i)
			if r.Pattern == "" {
				return p.fail(path, "resources must have a 'pattern' field set", "add one, or delete resources: the plugin ignores it")
			}
			if r.Name == "" {
				return p.fail(path, "resources must have a 'name' field set", "add one, or delete resources: the plugin ignores it")
			}
			if _, err := p.resource(path+".name", r.Name); err != nil {
				return err
			}
		}
		if len(list.of) > 0 {
			p.warn("resources."+list.name, "NVIDIA's plugin ignores this", "delete it")
		}
	}
	return nil
}

func (p *parser) imex() *strictyaml.Error {
	ids := p.doc.Imex.ChannelIDs
	if len(ids) > 1 || len(ids) == 1 && ids[0] != 0 {
		return p.fail("imex.channelIDs", fmt.Sprintf("invalid IMEX config: channelIDs must be [] or [0]; found %v", ids), "write [0], or leave imex out")
	}
	p.out.IMEX = IMEX{ChannelIDs: ids, Required: p.doc.Imex.Required}
	return nil
}
