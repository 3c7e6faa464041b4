package lint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/strictyaml"
)

// pluginName is the name of what is found in configurations of the device plugin.
const pluginName = "plugin-config"

// pluginFile judges a file that is a configuration of NVIDIA's device plugin itself.
func (o *object) pluginFile() {
	line := func(in *strictyaml.Error) int { return in.Line }
	o.pluginConfig(o.in.file, "", string(o.text), line)
}

// pluginKey judges a key of a ConfigMap that is such a configuration.
func (o *object) pluginKey(key, text string) {
	field := strictyaml.Join("data", key)
	read := o.pluginConfig(key, field, text, func(in *strictyaml.Error) int {
		if value := at(o.root, "data", key); value.Style == yaml.LiteralStyle {
			return value.Line + in.Line
		}
		return 0
	})
	if read {
		o.say(field, warn(pluginName, "a ConfigMap by itself changes nothing: the device plugin reads it only where it is started with it",
			"NVIDIA's chart: --set-file config.map.config=FILE; GPU Operator: devicePlugin.config in the ClusterPolicy"))
	}
}

// pluginConfig judges a configuration of the device plugin, and says what each setting does. line is where in the file
// a mistake is; 0 is the line of the field. read is that it has no mistake.
func (o *object) pluginConfig(name, field, text string, line func(*strictyaml.Error) int) (read bool) {
	if o.in.read.PluginConfig == nil {
		return false
	}
	s, warnings, err := o.in.read.PluginConfig(name, []byte(text))
	if err != nil {
		seen, at := err.Error(), 0
		if wrong := (*strictyaml.Error)(nil); errors.As(err, &wrong) {
			at = line(wrong)
			seen = strings.TrimPrefix(seen, fmt.Sprintf("%s:%d: ", wrong.File, wrong.Line))
		}
		o.sayAt(at, field, fail(pluginName, "the device plugin refuses it: "+seen, "until it is right the plugin does not start, and its nodes have no GPUs"))
		return false
	}
	for _, text := range warnings {
		o.say(field, warn(pluginName, text, ""))
	}
	for _, effect := range effects(s) {
		o.say(field, ok(pluginName, effect))
	}
	return true
}

// effects says what the settings of a device plugin do.
func effects(s gpu.Sharing) (out []string) {
	if s.MIGStrategy != "" {
		out = append(out, "migStrategy "+string(s.MIGStrategy)+": "+map[gpu.MIGStrategy]string{
			gpu.MIGNone:   "MIG devices are not offered",
			gpu.MIGSingle: "MIG devices are offered as nvidia.com/gpu, if all of a node are of one profile",
			gpu.MIGMixed:  "MIG devices are offered by their profile, such as nvidia.com/mig-1g.5gb",
		}[s.MIGStrategy])
	}
	for _, resource := range slices.Sorted(maps.Keys(s.Replicas)) {
		n := s.Replicas[resource]
		text := fmt.Sprintf("replicas %d of %s: each device is offered as %d shares, so a node of 8 shows %d; they are shares, not more GPUs", n, resource, n, 8*n)
		if s.Strategy == gpu.SharingTimeSlicing {
			text += ": pods take turns, nothing limits their memory, and none is promised an equal part"
		}
		out = append(out, text)
	}
	if len(s.Replicas) == 0 {
		return out
	}
	if s.RenameByDefault {
		out = append(out, "renameByDefault true: shares are offered as NAME.shared, so pods must ask for that name")
	} else {
		out = append(out, "renameByDefault false: shares keep the name of whole devices, so pods cannot see from the name that they get a share")
	}
	if s.FailRequestsGreaterThanOne {
		return append(out, "failRequestsGreaterThanOne true: a pod that asks for two shares is refused by the node")
	}
	return append(out, "failRequestsGreaterThanOne false: a pod that asks for two may get two shares of one GPU, which give it no more than one does")
}
