package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// Parse reads NVIDIA's device plugin configuration, version v1, from YAML or
// JSON. name is the file's, or ConfigMap's and key's, for messages.
//
// MIGStrategy is "" where the file does not set it; then the plugin's
// environment decides. The second result is warnings, one sentence each: what
// the plugin reads and ignores, and what can have no effect.
//
// The error is an *Error, in the plugin's words where it would refuse too.
// Parse is stricter in three ways: it refuses fields that are not known, the
// same resource twice, and timeSlicing beside mps, which would silently win.
// Limits that depend on the node's GPUs are Check's.
func Parse(name string, data []byte) (gpu.Sharing, []string, error) {
	root, err := parse(name, data)
	if err != nil {
		return gpu.Sharing{}, nil, err
	}
	return ParseNode(name, root)
}

// ParseNode is Parse of a document that is part of another file, as a field
// of type yaml.Node that Decode has filled; lines are those of that file. nil
// and an empty node are an empty document.
func ParseNode(name string, doc *yaml.Node) (gpu.Sharing, []string, error) {
	if doc != nil && doc.Kind == yaml.DocumentNode && len(doc.Content) > 0 {
		doc = doc.Content[0]
	}
	if doc == nil || doc.IsZero() || doc.Kind == yaml.DocumentNode {
		return gpu.Sharing{}, nil, nil
	}
	p := parser{file: name, root: doc}
	// First what is wrong most often, before the field replicas, which does
	// not belong there, is called unknown.
	for _, kind := range []string{"timeSlicing", "mps"} {
		if err := p.noResources(kind); err != nil {
			return gpu.Sharing{}, nil, err
		}
	}
	if err := decodeNode(name, doc, &p.doc); err != nil {
		return gpu.Sharing{}, nil, err
	}
	for _, check := range []func() *Error{p.version, p.flags, p.plugin, p.ignored, p.imex, p.sharing} {
		if err := check(); err != nil {
			return gpu.Sharing{}, nil, err
		}
	}
	return p.out, p.warnings, nil
}

// Check says whether the GPUs of n can be shared as s says, in the words of
// NVIDIA's device plugin: MPS with MIG or with too many replicas, and MIG
// devices that strategy single cannot offer. It is sharing.Check.
func Check(s gpu.Sharing, n gpu.Node) error { return sharing.Check(n.GPUs, s) }

type parser struct {
	file     string
	root     *yaml.Node
	doc      document
	out      gpu.Sharing
	warnings []string
}

// fail refuses the field at a path.
func (p *parser) fail(path, message, fix string) *Error {
	return &Error{File: p.file, Line: locate(p.root, path), Field: path, Message: message, Fix: fix}
}

// warn notes a warning about the field at a path.
func (p *parser) warn(path, message, fix string) {
	p.warnings = append(p.warnings, p.fail(path, message, fix).Error())
}

// oneOf refuses a value that is not allowed; "" always is.
func (p *parser) oneOf(path, message, value string, allowed ...string) *Error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	fix := "use " + strings.Join(allowed[:len(allowed)-1], ", ") + " or " + allowed[len(allowed)-1]
	if near := gpu.NearestWord(value, allowed); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	return p.fail(path, message+": "+value, fix)
}

func (p *parser) version() *Error {
	if v := p.doc.Version; v != "" && v != "v1" {
		return p.fail("version", "unknown version: "+v, "write version: v1")
	}
	return nil
}

func (p *parser) flags() *Error {
	f := p.doc.Flags
	if err := p.oneOf("flags.migStrategy", "unknown MIG strategy", f.MIGStrategy, "none", "single", "mixed"); err != nil {
		return err
	}
	p.out.MIGStrategy = gpu.MIGStrategy(f.MIGStrategy)
	if err := p.oneOf("flags.deviceDiscoveryStrategy", "invalid --device-discovery-strategy option",
		f.DeviceDiscoveryStrategy, "auto", "nvml", "tegra", "vfio"); err != nil {
		return err
	}
	n := follow(&f.GFD.SleepInterval)
	if n == nil || n.IsZero() || isNull(n) || n.Value == "infinite" {
		return nil
	}
	_, err := time.ParseDuration(n.Value)
	if t := n.ShortTag(); n.Kind != yaml.ScalarNode || err != nil && t != "!!int" && t != "!!float" {
		return p.fail("flags.gfd.sleepInterval", "invalid duration: "+found(n), `use a duration such as 60s, or infinite`)
	}
	return nil
}

// plugin checks flags.plugin.
func (p *parser) plugin() *Error {
	f := p.doc.Flags.Plugin
	path := "flags.plugin.deviceListStrategy"
	var strategies []string
	n := follow(&f.DeviceListStrategy)
	switch {
	case n == nil || n.IsZero() || isNull(n):
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
		strategies = []string{n.Value}
	default:
		if n.Kind != yaml.SequenceNode || decodeNode(p.file, n, &strategies) != nil {
			return p.fail(path, "invalid deviceListStrategy: "+found(n), "use envvar, or a list such as [envvar, cdi-cri]")
		}
	}
	for _, s := range strategies {
		if s == "" {
			return p.fail(path, `invalid --device-list-strategy option: invalid strategy: ""`, "use envvar")
		}
		if strings.Contains(s, ",") {
			return p.fail(path, "invalid --device-list-strategy option: invalid strategy: "+s, "write a list: ["+s+"]")
		}
		if err := p.oneOf(path, "invalid --device-list-strategy option: invalid strategy", s,
			"envvar", "volume-mounts", "cdi-annotations", "cdi-cri"); err != nil {
			return err
		}
		if strings.HasPrefix(s, "cdi-") && p.doc.Flags.DeviceDiscoveryStrategy == "tegra" {
			return p.fail(path, "CDI --device-list-strategy options are only supported on NVML-based systems", "use envvar or volume-mounts")
		}
	}
	if err := p.oneOf("flags.plugin.deviceIDStrategy", "invalid --device-id-strategy option", f.DeviceIDStrategy, "uuid", "index"); err != nil {
		return err
	}
	p.out.Packed = f.AllocationPolicy == "packed"
	return p.oneOf("flags.plugin.sharedDevicesAllocationPolicy", "invalid --shared-devices-allocation-policy option",
		f.AllocationPolicy, "distributed", "packed")
}

// ignored checks resources, which the plugin reads and then leaves aside.
func (p *parser) ignored() *Error {
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

func (p *parser) imex() *Error {
	ids := p.doc.Imex.ChannelIDs
	if len(ids) > 1 || len(ids) == 1 && ids[0] != 0 {
		return p.fail("imex.channelIDs", fmt.Sprintf("invalid IMEX config: channelIDs must be [] or [0]; found %v", ids), "write [0], or leave imex out")
	}
	return nil
}
