package doctor

import "berth.dev/berth/agent/nvml"

// Facts is what was seen of a node. Zero values are "not found" unless said.
type Facts struct {
	Fake bool

	Cards   []Card            // NVIDIA GPUs on the PCI bus, by address
	Modules map[string]string // loaded kernel modules that matter, and who uses each
	Kernel  string            // version of the loaded NVIDIA kernel module
	Release string            // of the Linux kernel that runs, as uname -r; "" is unknown
	Library string            // version of the installed libnvidia-ml.so; "" is none found
	Nodes   []string          // device nodes of NVIDIA's, such as /dev/nvidia0
	Switch  bool              // NVSwitches on this machine
	Fabric  bool              // the Fabric Manager is up

	Asked    bool // the driver was asked; Snapshot or DriverErr is its answer
	Snapshot nvml.Snapshot
	Driver   error

	SecureBoot bool
	Rejected   string // the kernel's line that refused the module; "" is none seen
	Xids       []string

	Tools   map[string]string // programs of the container toolkit and of MPS, and where they are
	Toolkit Toolkit
	Runtime Runtime
	CDIDir  string // where the agent writes specifications

	CgroupV2 bool
	Kubelet  Kubelet

	MetricsURL   string // "" is not asked
	MetricsErr   error
	MetricsCount int // series of GPUs
}

// Card is one GPU on the PCI bus.
type Card struct {
	BusID  string
	Driver string // kernel driver that holds it; "" is none
}

// Toolkit is the configuration of NVIDIA's container runtime.
type Toolkit struct {
	Config string // path of the file; "" is none, and its defaults hold
	// EnvVar says that a container without privileges gets the GPUs that its
	// variable NVIDIA_VISIBLE_DEVICES names.
	EnvVar bool
}

// Runtime is the node's container runtime.
type Runtime struct {
	Name    string // containerd or cri-o; "" is none found
	Version string // such as "1.7.24"; "" is unknown
	Config  string // path of its configuration; "" is none found
	// CDI is what the configuration says: nil is nothing.
	CDI *bool
	// CDIDirs are the folders of specifications that it names; nil is its defaults.
	CDIDirs []string
	Default string // name of the default OCI runtime
	NVIDIA  string // name of an OCI runtime that is NVIDIA's; "" is none
}

// Kubelet is the kubelet's side of device plugins.
type Kubelet struct {
	Dir          bool // its folder of device plugins is there
	Socket       bool // with kubelet.sock in it
	PodResources bool
	Own, Foreign []string         // sockets of the agent's, and others of NVIDIA's names; without those that no process serves
	Registered   map[string]int   // devices by resource name, in the kubelet's checkpoint
	Unreadable   map[string]error // files that were there and could not be read
}
