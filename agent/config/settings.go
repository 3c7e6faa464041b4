package config

import (
	"maps"
	"slices"
	"time"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/health"
	"berth.dev/berth/internal/strictyaml"
)

// Settings is everything that a node agent is told: the configuration file of
// NVIDIA's device plugin and GPU Feature Discovery, version v1, with defaults
// filled in. It is a value: to change one, copy it with Clone.
type Settings struct {
	// Sharing is what is offered. Its MIGStrategy is "" where no source sets it,
	// which means none.
	gpu.Sharing

	// FailOnInitError ends the agent where the driver cannot be read at its
	// start. False waits until it can be. Default true, as the plugin's.
	FailOnInitError bool
	// MPSRoot is the directory on the host for the pipes and logs of MPS, which
	// containers get mounted. Default DefaultMPSRoot.
	MPSRoot string
	// DriverRoot is where the driver's files are, on the host. Default "/".
	DriverRoot string
	// DevRoot is the folder that has dev/nvidia0 and so on. Default DriverRoot.
	DevRoot string
	// GDRCopy, GDS and MOFED add to containers the devices of GPUDirect RDMA copy,
	// GPUDirect Storage and Mellanox OFED. Default false.
	GDRCopy, GDS, MOFED bool
	// Discovery is how GPUs are found: "auto", "nvml", "tegra" or "vfio".
	// Default "auto". Only NVML is read whatever it says.
	Discovery string

	Plugin Plugin
	GFD    GFD
	IMEX   IMEX

	// What follows has no place in the file: only flags and environment
	// variables set it.

	// KubeletSocket is where the kubelet takes registrations. Default
	// DefaultKubeletSocket.
	KubeletSocket string
	// CDIFeatureFlags and CDIDisableHooks are handed to the maker of CDI specs.
	CDIFeatureFlags, CDIDisableHooks []string
	Health                           Health
}

// DefaultKubeletSocket is fixed in the kubelet, whatever its root folder is.
const DefaultKubeletSocket = "/var/lib/kubelet/device-plugins/kubelet.sock"

// DefaultMPSRoot is where MPS keeps pipes and logs unless told: where the chart
// of NVIDIA's plugin puts them.
const DefaultMPSRoot = "/run/nvidia/mps"

// Device list strategies: how a container is told of its devices.
const (
	ListEnvvar         = "envvar"          // NVIDIA_VISIBLE_DEVICES, read by NVIDIA's runtime
	ListVolumeMounts   = "volume-mounts"   // mounts of /dev/null below /var/run/nvidia-container-devices
	ListCDIAnnotations = "cdi-annotations" // annotations that name CDI devices
	ListCDICRI         = "cdi-cri"         // the CRI's field for CDI devices
)

// Plugin is flags.plugin of the file: how devices reach containers.
type Plugin struct {
	// PassDeviceSpecs gives device nodes to the kubelet too, besides what
	// envvar and volume-mounts say. Default false.
	PassDeviceSpecs bool
	// DeviceListStrategy is one or more of the List constants, without
	// duplicates, in the file's order. Default ["envvar"].
	DeviceListStrategy []string
	// DeviceIDStrategy is what devices are called in a container: "uuid" or
	// "index". Default "uuid".
	DeviceIDStrategy string
	// CDIAnnotationPrefix begins the annotations of cdi-annotations. Default
	// "cdi.k8s.io/".
	CDIAnnotationPrefix string
	// CTKPath is the program nvidia-ctk or nvidia-cdi-hook on the host, for
	// hooks of a CDI spec. Default "/usr/bin/nvidia-ctk".
	CTKPath string
	// ContainerDriverRoot is where the agent itself sees DriverRoot. Default
	// "/driver-root".
	ContainerDriverRoot string
}

// Has reports whether one of the strategies is in force.
func (p Plugin) Has(strategy string) bool { return slices.Contains(p.DeviceListStrategy, strategy) }

// CDIOnly reports whether every strategy is one of CDI's: then containers get no
// NVIDIA_VISIBLE_DEVICES and no device nodes from the kubelet.
func (p Plugin) CDIOnly() bool {
	return !p.Has(ListEnvvar) && !p.Has(ListVolumeMounts) && len(p.DeviceListStrategy) > 0
}

// GFD is flags.gfd of the file: GPU Feature Discovery's own. The agent writes
// labels when they change and needs none of them; OutputFile and
// MachineTypeFile are honored.
type GFD struct {
	Oneshot           bool
	NoTimestamp       bool          // leave out the label gfd.timestamp
	SleepInterval     time.Duration // default 60 s; 0 is "infinite"
	OutputFile        string        // also write labels there; "" does not
	MachineTypeFile   string        // holds the machine's name; default DefaultMachineTypeFile
	UseNodeFeatureAPI bool          // labels by Node Feature Discovery's objects; default true
}

// DefaultMachineTypeFile is where Linux tells the machine's product name.
const DefaultMachineTypeFile = "/sys/class/dmi/id/product_name"

// IMEX is how containers reach the memory of GPUs in other nodes.
type IMEX struct {
	ChannelIDs []int // none, or [0]
	Required   bool  // a container that cannot have the channel does not start
}

// Health is which Xid errors count.
type Health struct {
	Disable health.Codes // DP_DISABLE_HEALTHCHECKS: those do not make a GPU unhealthy
	Enable  health.Codes // DP_ENABLE_HEALTHCHECKS: those do, whatever Disable says
}

// DefaultSettings is what holds where no source says anything.
func DefaultSettings() Settings {
	s, _, err := ParseSettings("", nil)
	if err != nil {
		panic("config: invalid defaults: " + err.Error())
	}
	return s
}

// ParseSettings reads a whole configuration file. It is as strict as Parse,
// with the same errors and warnings, and fills in defaults.
func ParseSettings(name string, data []byte) (Settings, []string, error) {
	return Resolve(name, data, nil)
}

// Resolve is ParseSettings with values over those of the file, the last of each
// option in force. All that ParseSettings checks is checked of what comes out;
// an error about a value is named by its From, not by the file.
//
// Resolve panics if a value is of no option: that is a bug in the caller.
func Resolve(name string, data []byte, over []Value) (Settings, []string, error) {
	root, err := strictyaml.Parse(name, data)
	if err != nil {
		return Settings{}, nil, err
	}
	p, failed := read(name, root, over)
	if failed != nil {
		return Settings{}, nil, failed
	}
	return p.out, p.warnings, nil
}

// Clone returns a copy that shares nothing with s.
func (s Settings) Clone() Settings {
	s.Replicas, s.Devices = maps.Clone(s.Replicas), maps.Clone(s.Devices)
	for name, devices := range s.Devices {
		s.Devices[name] = slices.Clone(devices)
	}
	s.Plugin.DeviceListStrategy = slices.Clone(s.Plugin.DeviceListStrategy)
	s.IMEX.ChannelIDs = slices.Clone(s.IMEX.ChannelIDs)
	s.CDIFeatureFlags = slices.Clone(s.CDIFeatureFlags)
	s.CDIDisableHooks = slices.Clone(s.CDIDisableHooks)
	s.Health.Disable.Some = slices.Clone(s.Health.Disable.Some)
	s.Health.Enable.Some = slices.Clone(s.Health.Enable.Some)
	return s
}
