package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/internal/strictyaml"
)

// noResources refuses a sharing strategy that lists no resources. Tutorials
// have replicas there, outside of any resource; the fix is that, put right.
func (p *parser) noResources(kind string) *strictyaml.Error {
	_, sharing := strictyaml.Child(p.root, "sharing")
	_, n := strictyaml.Child(sharing, kind)
	n = strictyaml.Follow(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	_, list := strictyaml.Child(n, "resources")
	list = strictyaml.Follow(list)
	if list != nil && !strictyaml.IsNull(list) && (list.Kind != yaml.SequenceNode || len(list.Content) > 0) {
		return nil
	}
	path, message, replicas := "sharing."+kind, "no resources specified", "2"
	if _, r := strictyaml.Child(n, "replicas"); r != nil {
		path += ".replicas"
		message += ": replicas is a field of each resource, and alone it shares nothing"
		if v, err := strconv.Atoi(r.Value); err == nil && v >= 2 {
			replicas = r.Value
		}
	}
	return p.fail(path, message, fmt.Sprintf("write %s: {resources: [{name: nvidia.com/gpu, replicas: %s}]}", kind, replicas))
}

// sharing reads which of the two strategies holds, and its resources.
func (p *parser) sharing() *strictyaml.Error {
	s, kind := p.doc.Sharing.TimeSlicing, "timeSlicing"
	p.out.Strategy = gpu.SharingTimeSlicing
	if mps := p.doc.Sharing.MPS; mps != nil {
		if s != nil {
			return p.fail("sharing", "mps and timeSlicing are both set, and NVIDIA's plugin would use mps without a warning", "remove one of them")
		}
		s, kind = mps, "mps"
		p.out.Strategy = gpu.SharingMPS
		if err := p.mps(); err != nil {
			return err
		}
	}
	if s == nil {
		p.out.Strategy = ""
		return nil
	}
	p.out.RenameByDefault = s.RenameByDefault
	p.out.FailRequestsGreaterThanOne = kind == "mps"
	if s.FailRequestsGreaterThanOne != nil {
		p.out.FailRequestsGreaterThanOne = *s.FailRequestsGreaterThanOne
	}
	p.out.Replicas = map[string]int{}
	for i, r := range s.Resources {
		if err := p.entry(fmt.Sprintf("sharing.%s.resources[%d]", kind, i), r); err != nil {
			return err
		}
	}
	return nil
}

// mps checks what MPS needs of the flags.
func (p *parser) mps() *strictyaml.Error {
	if p.out.MIGStrategy == gpu.MIGMixed {
		return p.fail("flags.migStrategy", "using --mig-strategy=mixed is not supported with MPS", "use timeSlicing, or another migStrategy")
	}
	if root := p.doc.Flags.MPSRoot; root != nil && *root == "" {
		return p.fail("flags.mpsRoot", "using MPS requires --mps-root to be specified", "write mpsRoot: /run/nvidia/mps, or leave it to the plugin's environment")
	}
	return nil
}

// entry reads one shared resource.
func (p *parser) entry(path string, r shared) *strictyaml.Error {
	if r.Name == "" {
		return p.fail(path, "no resource name specified", "add name: nvidia.com/gpu")
	}
	name, err := p.resource(path+".name", r.Name)
	if err != nil {
		return err
	}
	if r.Replicas == nil {
		return p.fail(path, "no replicas specified", "add replicas: 2, or more")
	}
	if *r.Replicas < 2 {
		return p.fail(path+".replicas", "number of replicas must be >= 2", fmt.Sprintf("found %d; leave %s out to offer it whole", *r.Replicas, name))
	}
	if *r.Replicas > sharing.MostReplicas {
		return p.fail(path+".replicas", fmt.Sprintf("number of replicas must be <= %d", sharing.MostReplicas),
			fmt.Sprintf("found %d; a share is at least a thousandth of a GPU", *r.Replicas))
	}
	only, err := p.devices(path+".devices", strictyaml.Follow(&r.Devices))
	if err != nil {
		return err
	}
	if _, twice := p.out.Replicas[name]; twice {
		return p.fail(path+".name", name+" is given twice", "keep one")
	}
	mig := strings.HasPrefix(name, "nvidia.com/mig-")
	if mig && p.out.Strategy == gpu.SharingMPS {
		return p.fail(path+".name", "sharing using MPS is not supported for MIG devices", "use timeSlicing")
	}
	p.out.Replicas[name] = *r.Replicas
	p.only(path+".devices", name, only)
	if name != gpu.ResourceGPU && !mig {
		p.warn(path+".name", "no device has the resource "+name, "use nvidia.com/gpu, or nvidia.com/mig- and a profile")
	}
	if r.Rename != "" {
		if _, err := p.resource(path+".rename", r.Rename); err != nil {
			return err
		}
		p.warn(path+".rename", "NVIDIA's plugin ignores this", "use renameByDefault: true for "+gpu.SharedResource(name))
	}
	return nil
}

// subdomain is the part of a resource name after the slash (RFC 1123).
var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// resource returns the full name of a resource.
func (p *parser) resource(path, name string) (string, *strictyaml.Error) {
	const prefix = "nvidia.com/"
	full := prefix + strings.TrimPrefix(name, prefix)
	if len(full) > 63 {
		return "", p.fail(path, "fully-qualified resource name must be 63 characters or less: "+full, fmt.Sprintf("shorten it by %d", len(full)-63))
	}
	if !subdomain.MatchString(strings.TrimPrefix(full, prefix)) {
		return "", p.fail(path, "incorrect format for resource name '"+name+"'", "use nvidia.com/gpu, or nvidia.com/mig- and a profile")
	}
	return full, nil
}

// A device in a list: an index, a MIG device as GPU:index, or a UUID.
var device = regexp.MustCompile(`^([0-9]+(:[0-9]+)?|(GPU|MIG)-.+)$`)

// devices reads which devices an entry is for; nil is all. A count is that of
// the first GPUs, with all MIG devices on them.
func (p *parser) devices(path string, n *yaml.Node) ([]string, *strictyaml.Error) {
	if n == nil || n.IsZero() || strictyaml.IsNull(n) {
		return nil, nil
	}
	const fix = "leave devices out: all are shared"
	only := []string{}
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int":
		var count int
		if n.Decode(&count) != nil || count <= 0 {
			return nil, p.fail(path, "devices set as '"+n.Value+"' but a count of devices must be > 0", fix)
		}
		for i := range min(count, mostDevices) {
			only = append(only, strconv.Itoa(i))
		}
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
		if n.Value != "all" {
			return nil, p.fail(path, "devices set as '"+n.Value+"' but the only valid string input is 'all'", fix)
		}
		return nil, nil
	case n.Kind == yaml.SequenceNode:
		for i, c := range n.Content {
			if c = strictyaml.Follow(c); c == nil || c.Kind != yaml.ScalarNode || !device.MatchString(c.Value) {
				return nil, p.fail(fmt.Sprintf("%s[%d]", path, i), "unsupported type for device in devices list", "use an index, \"GPU:index\" of a MIG device, or a UUID")
			}
			only = append(only, c.Value)
		}
	default:
		return nil, p.fail(path, "unrecognized type for devices spec: "+strictyaml.Found(n), fix)
	}
	return only, nil
}

// mostDevices is more than a node has.
const mostDevices = 256

// only shares a resource on some devices alone. NVIDIA's plugin shares all of
// them whatever the file says. Here it holds where the shares have another name
// than what stays whole, so no pod that asks for a GPU gets a share.
func (p *parser) only(path, name string, devices []string) {
	switch {
	case devices == nil:
	case !p.out.RenameByDefault:
		p.warn(path, "all devices are shared, as NVIDIA's plugin does", "add renameByDefault: true, and these are "+gpu.SharedResource(name)+" and the others stay "+name)
	default:
		if p.out.Devices == nil {
			p.out.Devices = map[string][]string{}
		}
		p.out.Devices[name] = devices
		p.warn(path, "NVIDIA's plugin would share all devices", "")
	}
}
