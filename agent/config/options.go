package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"berth.dev/berth/core/health"
	"berth.dev/berth/internal/strictyaml"
)

// Option is one setting that a flag or an environment variable can set too,
// over the file.
type Option struct {
	Flag  string   // such as "mig-strategy", as NVIDIA's plugin calls it
	Env   []string // its environment variables; the first that is set counts
	Path  string   // its field in the file, such as "flags.migStrategy"; "" has none
	Usage string   // one line
	Bool  bool     // the flag needs no value
	set   func(d *document, text string) error
}

// Value sets one option over the file.
type Value struct {
	Flag string // Option.Flag
	Text string // lists have commas
	From string // who says so, for messages, such as "MIG_STRATEGY" or "--mig-strategy"
}

// Options are all options, in the file's order. The slice is the caller's.
//
// Source: the flags of NVIDIA's device plugin, v0.20, and of GPU Feature
// Discovery, which comes with it.
func Options() []Option { return slices.Clone(options) }

var options = []Option{
	flagText("mig-strategy", "flags.migStrategy", "how MIG devices are offered: none, single or mixed (default none)",
		func(d *document) *string { return &d.Flags.MIGStrategy }, "MIG_STRATEGY", "GFD_MIG_STRATEGY"),
	flagBool("fail-on-init-error", "flags.failOnInitError", "exit if the driver cannot be read at startup, instead of waiting (default true)",
		func(d *document) *bool { return &d.Flags.FailOnInitError }, "FAIL_ON_INIT_ERROR", "GFD_FAIL_ON_INIT_ERROR"),
	{
		Flag: "mps-root", Env: []string{"MPS_ROOT"}, Path: "flags.mpsRoot", Usage: "directory on the host for the pipes and logs of MPS (default " + DefaultMPSRoot + ")",
		set: func(d *document, text string) error { d.Flags.MPSRoot = &text; return nil },
	},
	flagText("nvidia-driver-root", "flags.nvidiaDriverRoot", "where the driver's files are on the host (default /)",
		func(d *document) *string { return &d.Flags.DriverRoot }, "NVIDIA_DRIVER_ROOT"),
	flagText("nvidia-dev-root", "flags.nvidiaDevRoot", "directory on the host that has dev/nvidia0 and so on (default: nvidia-driver-root)",
		func(d *document) *string { return &d.Flags.DevRoot }, "NVIDIA_DEV_ROOT"),
	flagBool("gdrcopy-enabled", "flags.gdrcopyEnabled", "add to containers the devices of GDRCopy",
		func(d *document) *bool { return &d.Flags.GDRCopy }, "GDRCOPY_ENABLED"),
	flagBool("gds-enabled", "flags.gdsEnabled", "add to containers the devices of GPUDirect Storage",
		func(d *document) *bool { return &d.Flags.GDS }, "GDS_ENABLED"),
	flagBool("mofed-enabled", "flags.mofedEnabled", "add to containers the devices of Mellanox OFED",
		func(d *document) *bool { return &d.Flags.MOFED }, "MOFED_ENABLED"),
	flagBool("use-node-feature-api", "flags.useNodeFeatureAPI", "labels by objects of Node Feature Discovery (default true)",
		func(d *document) *bool { return &d.Flags.UseNodeFeatureAPI }, "GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"),
	flagText("device-discovery-strategy", "flags.deviceDiscoveryStrategy", "how GPUs are found: auto, nvml, tegra or vfio (default auto)",
		func(d *document) *string { return &d.Flags.DeviceDiscoveryStrategy }, "DEVICE_DISCOVERY_STRATEGY"),

	flagBool("pass-device-specs", "flags.plugin.passDeviceSpecs", "also return device nodes to the kubelet",
		func(d *document) *bool { return &d.Flags.Plugin.PassDeviceSpecs }, "PASS_DEVICE_SPECS"),
	{
		Flag: "device-list-strategy", Env: []string{"DEVICE_LIST_STRATEGY"}, Path: "flags.plugin.deviceListStrategy",
		Usage: "how containers get their devices: envvar, volume-mounts, cdi-annotations, or cdi-cri, comma-separated (default envvar)",
		set: func(d *document, text string) error {
			n := yaml.Node{Kind: yaml.SequenceNode}
			for _, s := range list(text) {
				n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s})
			}
			d.Flags.Plugin.DeviceListStrategy = n
			return nil
		},
	},
	flagText("device-id-strategy", "flags.plugin.deviceIDStrategy", "what devices are called in a container: uuid or index (default uuid)",
		func(d *document) *string { return &d.Flags.Plugin.DeviceIDStrategy }, "DEVICE_ID_STRATEGY"),
	flagText("cdi-annotation-prefix", "flags.plugin.cdiAnnotationPrefix", "prefix of the annotations of cdi-annotations (default cdi.k8s.io/)",
		func(d *document) *string { return &d.Flags.Plugin.CDIAnnotationPrefix }, "CDI_ANNOTATION_PREFIX"),
	flagText("nvidia-cdi-hook-path", "flags.plugin.nvidiaCTKPath", "nvidia-ctk or nvidia-cdi-hook on the host (default /usr/bin/nvidia-ctk)",
		func(d *document) *string { return &d.Flags.Plugin.CTKPath }, "NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"),
	flagText("container-driver-root", "flags.plugin.containerDriverRoot", "where the agent itself sees the driver's files (default /driver-root)",
		func(d *document) *string { return &d.Flags.Plugin.ContainerDriverRoot }, "DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"),
	flagText("shared-devices-allocation-policy", "flags.plugin.sharedDevicesAllocationPolicy", "from which GPU shares are allocated: distributed or packed (default distributed)",
		func(d *document) *string { return &d.Flags.Plugin.AllocationPolicy }, "SHARED_DEVICES_ALLOCATION_POLICY"),

	flagBool("oneshot", "flags.gfd.oneshot", "write labels once", func(d *document) *bool { return &d.Flags.GFD.Oneshot }, "GFD_ONESHOT"),
	flagBool("no-timestamp", "flags.gfd.noTimestamp", "omit the label nvidia.com/gfd.timestamp",
		func(d *document) *bool { return &d.Flags.GFD.NoTimestamp }, "GFD_NO_TIMESTAMP"),
	{
		Flag: "sleep-interval", Env: []string{"GFD_SLEEP_INTERVAL"}, Path: "flags.gfd.sleepInterval", Usage: "time between labels, or infinite (default 60s)",
		set: func(d *document, text string) error {
			d.Flags.GFD.SleepInterval = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
			return nil
		},
	},
	flagText("output-file", "flags.gfd.outputFile", "file to write labels to as well", func(d *document) *string { return &d.Flags.GFD.OutputFile }, "GFD_OUTPUT_FILE"),
	flagText("machine-type-file", "flags.gfd.machineTypeFile", "file with the machine's product name (default "+DefaultMachineTypeFile+")",
		func(d *document) *string { return &d.Flags.GFD.MachineTypeFile }, "GFD_MACHINE_TYPE_FILE", "MACHINE_TYPE_FILE"),

	{
		Flag: "imex-channel-ids", Env: []string{"IMEX_CHANNEL_IDS"}, Path: "imex.channelIDs", Usage: "IMEX channels that containers get: none, or 0",
		set: func(d *document, text string) error {
			ids := []int{}
			for _, s := range list(text) {
				id, err := strconv.Atoi(s)
				if err != nil {
					return fmt.Errorf("must be comma-separated whole numbers, found %q", text)
				}
				ids = append(ids, id)
			}
			d.Imex.ChannelIDs = ids
			return nil
		},
	},
	flagBool("imex-required", "imex.required", "do not start a container that cannot get its IMEX channel",
		func(d *document) *bool { return &d.Imex.Required }, "IMEX_REQUIRED"),

	flagText("kubelet-socket", "", "the kubelet's registration socket (default "+DefaultKubeletSocket+")",
		func(d *document) *string { return &d.beside.KubeletSocket }, "KUBELET_SOCKET"),
	flagWords("cdi-feature-flags", "features of CDI specs, comma-separated", func(d *document) *[]string { return &d.beside.CDIFeatureFlags }, "CDI_FEATURE_FLAGS"),
	flagWords("cdi-disable-hooks", "hooks to omit from CDI specs, comma-separated, or all", func(d *document) *[]string { return &d.beside.CDIDisableHooks }, "CDI_DISABLE_HOOKS"),
	flagXids("disable-health-checks", "Xid errors that do not make a GPU unhealthy: all, or comma-separated numbers",
		func(d *document) *health.Codes { return &d.beside.Health.Disable }, "DP_DISABLE_HEALTHCHECKS"),
	flagXids("enable-health-checks", "Xid errors that do, even if disable-health-checks lists them: all, or numbers",
		func(d *document) *health.Codes { return &d.beside.Health.Enable }, "DP_ENABLE_HEALTHCHECKS"),
}

func flagText(flag, path, usage string, at func(*document) *string, env ...string) Option {
	return Option{Flag: flag, Env: env, Path: path, Usage: usage, set: func(d *document, text string) error {
		*at(d) = text
		return nil
	}}
}

func flagBool(flag, path, usage string, at func(*document) *bool, env ...string) Option {
	return Option{Flag: flag, Env: env, Path: path, Usage: usage, Bool: true, set: func(d *document, text string) error {
		b, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return fmt.Errorf("must be true or false, found %q", text)
		}
		*at(d) = b
		return nil
	}}
}

func flagWords(flag, usage string, at func(*document) *[]string, env ...string) Option {
	return Option{Flag: flag, Env: env, Usage: usage, set: func(d *document, text string) error {
		*at(d) = list(text)
		return nil
	}}
}

// flagXids makes an option of Xids. The plugin leaves aside what is not a number; here
// that is refused.
func flagXids(flag, usage string, at func(*document) *health.Codes, env ...string) Option {
	return Option{Flag: flag, Env: env, Usage: usage, set: func(d *document, text string) error {
		var x health.Codes
		for _, s := range list(strings.ToLower(text)) {
			n, err := strconv.Atoi(s)
			switch {
			case s == "all":
				x.All = true
			case s == "xids":
				x.Xids = true
			case err != nil || n <= 0:
				return fmt.Errorf("must be all, xids, or comma-separated Xid numbers, found %q", s)
			default:
				x.Some = append(x.Some, n)
			}
		}
		slices.Sort(x.Some)
		x.Some = slices.Compact(x.Some)
		if x.All || x.Xids {
			x.Some = nil
		}
		*at(d) = x
		return nil
	}}
}

// list splits at commas, without blanks and empty parts.
func list(text string) []string {
	var out []string
	for s := range strings.SplitSeq(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// override sets options over what the file says.
func (p *parser) override(values []Value) *strictyaml.Error {
	for _, v := range values {
		i := slices.IndexFunc(options, func(o Option) bool { return o.Flag == v.Flag })
		if i < 0 {
			panic("config: unknown option " + v.Flag)
		}
		o := options[i]
		if o.Path != "" {
			p.from[o.Path] = v.From
		}
		if err := o.set(&p.doc, v.Text); err != nil {
			return &strictyaml.Error{File: v.From, Message: err.Error()}
		}
	}
	return nil
}
