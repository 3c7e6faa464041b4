package allocation

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/agent/allocation/ledger"
	"berth.dev/berth/core/sharing"
)

// Where things are on a node.
const (
	DefaultCDIDir     = "/var/run/cdi"
	DefaultDeviceDir  = "/var/lib/kubelet/device-plugins"
	DefaultCgroupRoot = "/sys/fs/cgroup"
)

// Options say how a node's devices are allocated. Pods is required.
type Options struct {
	// Kubelet accepts the kubelet's choice: Allocate answers with the devices
	// themselves, as NVIDIA's plugin does. Then commitments are ignored, and
	// nvidia.com/gpu-memory is not offered. It is for runtimes without CDI.
	Kubelet bool

	CDIDir       string // for spec files, where the container runtime reads them; "" is DefaultCDIDir
	DeviceDir    string // the kubelet's, with its checkpoint; "" is DefaultDeviceDir
	PodResources string // the kubelet's socket, asked if the checkpoint cannot be read; "" is none
	CgroupRoot   string // where cgroup v2 is mounted; "" is DefaultCgroupRoot
	DevRoot      string // the directory that has the node's dev, as the agent sees it; "" is "/"

	Pods PodSource

	// SchedulerNames are the values of spec.schedulerName whose pods have
	// committed devices: such a pod does not start without them.
	SchedulerNames []string
	// Required refuses every pod without committed devices.
	Required bool

	// DriverCDI returns the driver's CDI spec as JSON: common edits, and a device
	// for each GPU and MIG device, named by UUID. It is called once for each
	// inventory. nil: the node has none, and containers get their devices as the
	// configuration's device list strategy says.
	DriverCDI func(ctx context.Context) ([]byte, error)
	// MPS returns the edits by which a container with these shares reaches the MPS
	// daemon. It is called where the configuration shares by MPS; nil: no daemon.
	MPS func(shares []sharing.Device) (*specs.ContainerEdits, error)
	// SetMemoryLimit limits what the processes of a cgroup may use of a GPU's
	// memory. nil: the driver cannot.
	SetMemoryLimit func(ctx context.Context, uuid, cgroup string, bytes int64) error

	// Event sends an event about a pod: kind is "Normal" or "Warning", reason is in
	// CamelCase, and message is a sentence. nil drops it.
	Event func(pod *v1.Pod, kind, reason, message string)
	// NodeEvent sends an event about the node. nil drops it.
	NodeEvent func(kind, reason, message string)
	Log       *slog.Logger // nil logs nothing
}

// PodSource reads the pods that are bound to the node. Package pods has two.
type PodSource interface {
	// Pod returns the pod with a UID, as the kubelet has it: for a static pod, not
	// the UID of its mirror pod. No pod and no error: there is none. With fresh it
	// asks the server; without, it may answer from a cache.
	Pod(ctx context.Context, uid string, fresh bool) (*v1.Pod, error)
	// Pods returns all of them, including those that have ended but still exist.
	Pods(ctx context.Context, fresh bool) ([]*v1.Pod, error)
	// Changed has a value after a pod has been added, changed or removed. Run is
	// its only reader; values are coalesced.
	Changed() <-chan struct{}
}

// Holder is one container that holds devices.
type Holder = ledger.Holder
