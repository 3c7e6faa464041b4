package allocation

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/core/sharing"
)

// Where things are on a node.
const (
	DefaultCDIDir     = "/var/run/cdi"
	DefaultDeviceDir  = "/var/lib/kubelet/device-plugins"
	DefaultCgroupRoot = "/sys/fs/cgroup"
)

// Options say how a node's devices are given. Pods is needed.
type Options struct {
	// Kubelet lets the kubelet's choice stand: Allocate answers at once, with the
	// devices themselves, as NVIDIA's plugin does. Commitments are not honoured
	// then, and nvidia.com/gpu-memory is not offered. For runtimes without CDI.
	Kubelet bool

	CDIDir       string // for spec files, where the container runtime reads them; "" is DefaultCDIDir
	DeviceDir    string // the kubelet's, with its checkpoint; "" is DefaultDeviceDir
	PodResources string // the kubelet's socket, asked where the checkpoint cannot be read; "" is none
	CgroupRoot   string // where cgroup v2 is mounted; "" is DefaultCgroupRoot
	DevRoot      string // the folder that has the node's dev, as the agent sees it; "" is "/"

	// Pods tells of the pods of the node.
	Pods PodSource

	// SchedulerNames are the values of spec.schedulerName whose pods have
	// committed devices: without them such a pod does not start.
	SchedulerNames []string
	// Required refuses every pod without committed devices.
	Required bool

	// DriverCDI gives the driver's CDI spec as JSON: common edits, and a device for
	// each GPU and MIG device, named by UUID. It is asked once for each
	// inventory. nil is a node without one: containers are told of their devices
	// as the configuration's device list strategy says.
	DriverCDI func(ctx context.Context) ([]byte, error)
	// MPS gives the edits by which a container with these shares reaches the MPS
	// daemon. It is asked where the configuration shares by MPS. nil is none.
	MPS func(shares []sharing.Device) (*cdi.ContainerEdits, error)
	// SetMemoryLimit has the driver limit what the processes of a cgroup may use
	// of a GPU's memory. nil is a driver that cannot.
	SetMemoryLimit func(ctx context.Context, uuid, cgroup string, bytes int64) error

	// Event tells a pod's users something: "Normal" or "Warning", a reason in
	// CamelCase, a sentence. nil is nobody.
	Event func(pod *v1.Pod, kind, reason, message string)
	// NodeEvent tells those who look after the node, in the same form. nil is nobody.
	NodeEvent func(kind, reason, message string)
	Log       *slog.Logger // nil is none
}

// PodSource tells of the pods that are bound to the node. Package pods has two.
type PodSource interface {
	// Pod gives the pod with a UID, as the kubelet calls it: of a static pod that
	// is not its mirror's. nil and no error is no such pod. With fresh it asks
	// anew, else it may answer from what it knows.
	Pod(ctx context.Context, uid string, fresh bool) (*v1.Pod, error)
	// Pods gives all of them, also those that have ended but are still there.
	Pods(ctx context.Context, fresh bool) ([]*v1.Pod, error)
	// Changed has a value after a pod has come, changed or gone. Run is its only
	// reader; values are coalesced.
	Changed() <-chan struct{}
}

// Holder is one container that holds devices.
type Holder struct {
	PodUID, Namespace, Pod, Container string
	Devices                           []sharing.Device
	Committed                         bool // by the scheduler; false: the kubelet's choice
	// Picked is what the kubelet's choice stood for: the UUIDs of the devices, as
	// many as it chose. They differ from Devices where a commitment did.
	Picked []string
}
