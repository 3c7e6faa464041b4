package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"berth.dev/berth/core/mig"
)

// migDocument is the file of NVIDIA's mig-parted and MIG manager, version v1.
//
// Source: NVIDIA/mig-parted v0.14, api/spec/v1.
type migDocument struct {
	Version string                `json:"version"`
	Configs map[string][]migEntry `json:"mig-configs"` //nolint:tagliatelle // mig-parted's
}

type migEntry struct {
	Filter  yaml.Node      `json:"device-filter"` //nolint:tagliatelle // mig-parted's; text or a list
	Devices yaml.Node      `json:"devices"`       // "all", or a list of indexes
	Enabled *bool          `json:"mig-enabled"`   //nolint:tagliatelle // mig-parted's
	MIG     map[string]int `json:"mig-devices"`   //nolint:tagliatelle // mig-parted's
}

var (
	migFilter = regexp.MustCompile(`^0x[0-9A-Fa-f]{8}$`)
	// A profile, perhaps with a compute instance before it that is smaller than
	// its GPU instance, or with attributes after it.
	migProfile = regexp.MustCompile(`^([0-9]+c\.)?[0-9]+g\.[0-9]+gb([+.][a-z]+)*$`)
)

// ParseMIG reads the file of NVIDIA's mig-parted, by the names of its
// configurations. The error is an *Error. Whether a GPU can be cut so is not
// checked: that depends on the node, see mig.Plan.
//
// It is stricter than mig-parted: fields that are not known, a device-filter of
// another form and an index below 0 are refused. Compute instances that are
// smaller than their GPU instance (1c.3g.20gb) are refused too, since no
// Kubernetes resource stands for them.
func ParseMIG(name string, data []byte) (map[string]mig.Config, error) {
	root, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	p := &parser{file: name, root: root}
	if root == nil {
		return nil, &Error{File: name, Message: "no mig-configs", Fix: "write mig-configs: {all-disabled: [{devices: all, mig-enabled: false}]}"}
	}
	var doc migDocument
	if err := decodeNode(name, root, &doc); err != nil {
		return nil, err
	}
	if doc.Version != "" && doc.Version != "v1" {
		return nil, p.fail("version", "unknown version: "+doc.Version, "write version: v1")
	}
	if len(doc.Configs) == 0 {
		return nil, p.fail("mig-configs", "no mig-configs", "write mig-configs: {all-disabled: [{devices: all, mig-enabled: false}]}")
	}
	out := map[string]mig.Config{}
	for _, key := range slices.Sorted(maps.Keys(doc.Configs)) {
		c := mig.Config{Name: key}
		at := join("mig-configs", key)
		if len(doc.Configs[key]) == 0 {
			return nil, p.fail(at, "an empty configuration", "write "+key+": [{devices: all, mig-enabled: false}]")
		}
		for i, e := range doc.Configs[key] {
			entry, err := p.migEntry(fmt.Sprintf("%s[%d]", at, i), e)
			if err != nil {
				return nil, err
			}
			c.Entries = append(c.Entries, entry)
		}
		out[key] = c
	}
	return out, nil
}

func (p *parser) migEntry(path string, e migEntry) (mig.Entry, *Error) {
	out := mig.Entry{}
	if e.Enabled == nil {
		return out, p.fail(path, "required field missing: mig-enabled", "add mig-enabled: true, or false")
	}
	out.Enabled = *e.Enabled
	if err := p.migDevices(path+".devices", follow(&e.Devices), &out); err != nil {
		return out, err
	}
	var err *Error
	if out.Filter, err = p.migFilter(path+".device-filter", follow(&e.Filter)); err != nil {
		return out, err
	}
	if len(e.MIG) > 0 && !out.Enabled {
		return out, p.fail(path+".mig-devices", "MIG devices where mig-enabled is false", "write mig-enabled: true, or leave mig-devices out")
	}
	for _, profile := range slices.Sorted(maps.Keys(e.MIG)) {
		at := join(path+".mig-devices", profile)
		m := migProfile.FindStringSubmatch(profile)
		switch {
		case m == nil:
			return out, p.fail(at, "not a MIG profile: "+profile, "write it as nvidia-smi mig -lgip does, such as 1g.5gb")
		case m[1] != "":
			return out, p.fail(at, "compute instances smaller than their GPU instance are not supported: "+profile, "use "+profile[len(m[1]):])
		case e.MIG[profile] < 1:
			return out, p.fail(at, "must be 1 or more, found "+strconv.Itoa(e.MIG[profile]), "leave "+profile+" out")
		}
	}
	out.Devices = e.MIG
	return out, nil
}

// migDevices reads which GPUs an entry is for.
func (p *parser) migDevices(path string, n *yaml.Node, to *mig.Entry) *Error {
	const fix = "write devices: all, or a list of GPU indexes such as [0, 1]"
	switch {
	case n == nil || n.IsZero() || isNull(n):
		return p.fail(path, "required field missing: devices", fix)
	case n.Kind == yaml.ScalarNode && n.Value == "all":
		to.All = true
		return nil
	case n.Kind != yaml.SequenceNode:
		return p.fail(path, "must be all or a list, found "+found(n), fix)
	}
	for i, c := range n.Content {
		c = follow(c)
		index, err := 0, error(nil)
		if c != nil {
			index, err = strconv.Atoi(c.Value)
		}
		if c == nil || c.Kind != yaml.ScalarNode || err != nil || index < 0 {
			return p.fail(fmt.Sprintf("%s[%d]", path, i), "not a GPU index", fix)
		}
		to.Indexes = append(to.Indexes, index)
	}
	if len(to.Indexes) == 0 {
		return p.fail(path, "an empty list", fix)
	}
	return nil
}

// migFilter reads one PCI ID or a list.
func (p *parser) migFilter(path string, n *yaml.Node) ([]string, *Error) {
	if n == nil || n.IsZero() || isNull(n) {
		return nil, nil
	}
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	var out []string
	for _, c := range nodes {
		// Without quotes it is a number to YAML, and its text the same.
		if c = follow(c); c == nil || c.Kind != yaml.ScalarNode || !migFilter.MatchString(c.Value) {
			return nil, p.fail(path, "not a PCI ID: "+foundIn(c), `write device and vendor in hexadecimal, such as "0x20B010DE"`)
		}
		out = append(out, c.Value)
	}
	return out, nil
}

func foundIn(n *yaml.Node) string {
	if n == nil {
		return "nothing"
	}
	return found(n)
}
