package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/mig"
	"berth.dev/berth/internal/strictyaml"
)

// migDocument is the file of NVIDIA's mig-parted and MIG manager, version v1.
//
// Source: NVIDIA/mig-parted v0.15, api/spec/v1.
type migDocument struct {
	Version string               `json:"version"`
	Configs map[string]yaml.Node `json:"mig-configs"` //nolint:tagliatelle // mig-parted's
}

type migEntry struct {
	Filter  yaml.Node       `json:"device-filter"` //nolint:tagliatelle // mig-parted's; text or a list
	Devices yaml.Node       `json:"devices"`       // "all", or a list of indexes
	Enabled *bool           `json:"mig-enabled"`   //nolint:tagliatelle // mig-parted's
	MIG     *map[string]int `json:"mig-devices"`   //nolint:tagliatelle // mig-parted's
}

// A PCI ID of a GPU, perhaps with that of its board after a colon.
var migFilter = regexp.MustCompile(`^0x[0-9A-Fa-f]{8}(:0x[0-9A-Fa-f]{8})?$`)

// MIGFile is what a file of MIG configurations says.
type MIGFile struct {
	Configs map[string]mig.Config // by name; those that can be used
	// Faults say why a configuration is left out, by its name; each is an *strictyaml.Error.
	Faults map[string]error
	// Remarks are of forms that are read here and that NVIDIA's tools refuse.
	Remarks []error
}

// ParseMIG reads the file of NVIDIA's mig-parted. A mistake in a configuration
// costs that configuration, and is in Faults; the error, which is an *strictyaml.Error, is
// for mistakes of the file as a whole. Whether a GPU can be cut so is not checked:
// that depends on the node, see mig.Plan.
//
// What mig-parted refuses is refused, save where the meaning is beyond doubt: a
// file without a version, a PCI ID without quotes, and a GPU that is named by its
// UUID are read with a remark. It is stricter in one thing: a device-filter that is
// not a PCI ID, which mig-parted takes for one that matches no GPU, is a mistake.
func ParseMIG(name string, data []byte) (MIGFile, error) {
	root, err := strictyaml.Parse(name, data)
	if err != nil {
		return MIGFile{}, err
	}
	p := &migParser{parser: parser{file: name, root: root}, decoder: strictyaml.NewDecoder(name)}
	if root == nil {
		return MIGFile{}, &strictyaml.Error{File: name, Message: "no mig-configs", Fix: "write mig-configs: {all-disabled: [{devices: all, mig-enabled: false}]}"}
	}
	var doc migDocument
	if err := p.decoder.Decode(root, "", &doc); err != nil {
		return MIGFile{}, err
	}
	switch {
	case doc.Version == "":
		p.remark("version", "missing, and NVIDIA's MIG manager refuses the file without it", "write version: v1")
	case doc.Version != "v1":
		return MIGFile{}, p.fail("version", "unknown version: "+doc.Version, "write version: v1")
	}
	if len(doc.Configs) == 0 {
		return MIGFile{}, p.fail("mig-configs", "no mig-configs", "write mig-configs: {all-disabled: [{devices: all, mig-enabled: false}]}")
	}
	out := MIGFile{Configs: map[string]mig.Config{}, Faults: map[string]error{}}
	for _, key := range slices.Sorted(maps.Keys(doc.Configs)) {
		node := doc.Configs[key]
		c, err := p.migConfig(key, &node)
		if err != nil {
			out.Faults[key] = err
			continue
		}
		out.Configs[key] = c
	}
	out.Remarks = p.remarks
	return out, nil
}

type migParser struct {
	parser
	decoder *strictyaml.Decoder
	remarks []error
}

func (p *migParser) remark(path, message, fix string) {
	p.remarks = append(p.remarks, p.fail(path, message, fix))
}

func (p *migParser) migConfig(key string, n *yaml.Node) (mig.Config, *strictyaml.Error) {
	c := mig.Config{Name: key}
	at := strictyaml.Join("mig-configs", key)
	var entries []migEntry
	if n.IsZero() {
		n = &yaml.Node{Kind: yaml.SequenceNode}
	}
	if err := p.decoder.Decode(n, at, &entries); err != nil {
		return c, err
	}
	if len(entries) == 0 {
		return c, p.fail(at, "an empty configuration", "write "+key+": [{devices: all, mig-enabled: false}]")
	}
	for i, e := range entries {
		entry, err := p.migEntry(fmt.Sprintf("%s[%d]", at, i), e)
		if err != nil {
			return c, err
		}
		c.Entries = append(c.Entries, entry)
	}
	return c, nil
}

func (p *migParser) migEntry(path string, e migEntry) (mig.Entry, *strictyaml.Error) {
	out := mig.Entry{}
	if e.Enabled == nil {
		return out, p.fail(path, "required field missing: mig-enabled", "add mig-enabled: true, or false")
	}
	out.Enabled = *e.Enabled
	if err := p.migDevices(path+".devices", strictyaml.Follow(&e.Devices), &out); err != nil {
		return out, err
	}
	var err *strictyaml.Error
	if out.Filter, err = p.migFilter(path+".device-filter", strictyaml.Follow(&e.Filter)); err != nil {
		return out, err
	}
	switch {
	case e.MIG == nil && out.Enabled: // it would remove all MIG devices
		return out, p.fail(path, "required field missing: mig-devices, as mig-enabled is true", "add mig-devices with how many of each profile, or mig-devices: {} for none")
	case e.MIG == nil:
		return out, nil
	case len(*e.MIG) > 0 && !out.Enabled:
		return out, p.fail(path+".mig-devices", "MIG devices where mig-enabled is false", "write mig-enabled: true, or leave mig-devices out")
	}
	out.Devices, err = p.migCounts(path+".mig-devices", *e.MIG)
	return out, err
}

// migCounts reads how many devices there are to be of each profile. None of a
// profile is like its absence, unless there is no other.
func (p *migParser) migCounts(path string, of map[string]int) (map[string]int, *strictyaml.Error) {
	out, total := map[string]int{}, 0
	for _, name := range slices.Sorted(maps.Keys(of)) {
		at := strictyaml.Join(path, name)
		s, err := gpu.ParseProfile(name)
		switch {
		case err != nil:
			return nil, p.fail(at, err.Error(), "write it as nvidia-smi mig -lgip does, such as 1g.5gb")
		case of[name] < 0:
			return nil, p.fail(at, "must be 0 or more, found "+strconv.Itoa(of[name]), "leave "+name+" out")
		case of[name] > mig.MostDevices-total:
			return nil, p.fail(at, fmt.Sprintf("%d MIG devices are too many", of[name]), fmt.Sprintf("write at most %d for one GPU, over all profiles", mig.MostDevices))
		case of[name] > 0:
			out[s.String()] += of[name]
			total += of[name]
		}
	}
	if len(of) > 0 && len(out) == 0 {
		return nil, p.fail(path, "all counts are 0", "write mig-devices: {} for none")
	}
	return out, nil
}

// migDevices reads which GPUs an entry is for.
func (p *migParser) migDevices(path string, n *yaml.Node, to *mig.Entry) *strictyaml.Error {
	const fix = "write devices: all, or a list of GPU indexes such as [0, 1]"
	switch {
	case n == nil || n.IsZero() || strictyaml.IsNull(n):
		return p.fail(path, "required field missing: devices", fix)
	case n.Kind == yaml.ScalarNode && n.Value == "all":
		to.All = true
		return nil
	case n.Kind != yaml.SequenceNode:
		return p.fail(path, "must be all or a list, found "+strictyaml.Found(n), fix)
	}
	for i, c := range n.Content {
		c, at := strictyaml.Follow(c), fmt.Sprintf("%s[%d]", path, i)
		if c == nil || c.Kind != yaml.ScalarNode {
			return p.fail(at, "not a GPU index", fix)
		}
		if strings.HasPrefix(c.Value, "GPU-") && len(c.Value) > len("GPU-") {
			p.remark(at, "a GPU by its UUID, which NVIDIA's MIG manager refuses", "use its index for both")
			to.UUIDs = append(to.UUIDs, c.Value)
			continue
		}
		index, err := strconv.Atoi(c.Value)
		if err != nil || index < 0 || index >= mostDevices {
			return p.fail(at, "not a GPU index: "+strictyaml.Found(c), fix)
		}
		to.Indexes = append(to.Indexes, index)
	}
	if len(n.Content) == 0 {
		return p.fail(path, "an empty list", fix)
	}
	return nil
}

// migFilter reads one PCI ID or a list.
func (p *migParser) migFilter(path string, n *yaml.Node) ([]string, *strictyaml.Error) {
	if n == nil || n.IsZero() || strictyaml.IsNull(n) {
		return nil, nil
	}
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	var out []string
	for i, c := range nodes {
		at := path
		if n.Kind == yaml.SequenceNode {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		// Without quotes it is a number to YAML, and its text the same.
		if c = strictyaml.Follow(c); c == nil || c.Kind != yaml.ScalarNode || !migFilter.MatchString(c.Value) {
			return nil, p.fail(at, "not a PCI ID: "+foundIn(c), `write device and vendor in hexadecimal, such as "0x20B010DE"`)
		}
		if c.ShortTag() != "!!str" {
			p.remark(at, "a number, which NVIDIA's MIG manager refuses", "write it in quotes: "+strconv.Quote(c.Value))
		}
		out = append(out, c.Value)
	}
	return out, nil
}

func foundIn(n *yaml.Node) string {
	if n == nil {
		return "nothing"
	}
	return strictyaml.Found(n)
}
