package kubelet

import (
	"time"

	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/fleet/smi"
)

// The states of a container, in the words of the container runtime interface,
// lower case.
const (
	StateWaiting    = "waiting"
	StateRunning    = "running"
	StateTerminated = "terminated"
)

// Line is one line of a container's log, without its newline. A Line whose At
// is later than now has not been printed yet: logs -f waits for it.
type Line struct {
	At   time.Time
	Text string
}

// Container is what the API shows of one container of one pod, at the moment
// of asking.
type Container struct {
	Namespace, Pod, UID string            // the pod's namespace, name and UID
	Labels              map[string]string // the pod's
	Name, Node, Image   string
	Init                bool
	State               string // StateWaiting, StateRunning or StateTerminated
	// Reason is why it waits or why it ended, such as "ContainerCreating",
	// "ImagePullBackOff" or "Completed". Empty while it waits stands for
	// "ContainerCreating".
	Reason        string
	Command, Args []string
	// Env holds "KEY=value" as the container sees them, with
	// NVIDIA_VISIBLE_DEVICES and the pod's own variables, in the order of env.
	Env          []string
	Ports        []int // declared container ports
	WorkingDir   string
	Hostname     string // what it calls itself; "" is the pod's name
	Shell        bool   // its process is a shell that can be typed into
	RestartCount int
	// Hosted says that a process of this machine backs it, which listens at
	// HostPort of 127.0.0.1; 0 is that it does not run yet.
	Hosted   bool
	HostPort int
	// Listens reports whether that process also listens at another port of 127.0.0.1; nil is that it does not.
	Listens func(port int) bool
	// StartedAt and FinishedAt are zero when it has not started or ended.
	StartedAt, FinishedAt time.Time
	Devices               []sharing.Device // what it holds
	// Lines is the log of the current instance, Previous that of the one
	// before, both in order of time. While it waits to be started again, the
	// instance that ended is Previous. Previous is nil when there was none.
	// Old lines may be dropped from the front of either.
	Lines, Previous []Line
	// Jupyter is what a Jupyter server in it tells; nil is that it plays none.
	Jupyter *Jupyter
	// Model is what a model server in it serves; nil is that it plays none.
	Model *Model
	// CPUMilli and MemoryBytes are what it uses now.
	CPUMilli, MemoryBytes int64
}

// NodeLabels is implemented by a Runtime that knows the labels of its nodes.
// Without it, the metrics API selects nodes by name only.
type NodeLabels interface {
	NodeLabels(node string) map[string]string
}

// Exiter is implemented by a Runtime whose containers end when their shell is
// told to exit.
type Exiter interface {
	// Exit ends the run of a container after that many restarts, with an exit
	// code of 0 to 255. One that has ended stays as it is.
	Exit(node, uid, container string, restarts, code int)
}

// Runtime is what the API needs to know of the simulated nodes. Its methods
// are called from many goroutines at once, and their results are only read.
type Runtime interface {
	// Containers returns the containers of the pods on a node, pod by pod and
	// within a pod in the order of its spec, init containers first. An empty
	// node, namespace or pod means all of them.
	Containers(node, namespace, pod string) []Container
	// View shows the GPUs (or the MIG devices) of a node with these UUIDs,
	// indexed again from 0, as nvidia-smi in a container sees them. Nil UUIDs
	// mean the whole node.
	View(node string, uuids []string) smi.View
	// Metrics returns the devices of a node as its metrics exporter shows them.
	Metrics(node string) []exporter.Device
	// Nodes returns the names of the simulated nodes, sorted.
	Nodes() []string
	// Usage returns what a node uses now, in thousandths of a CPU and bytes.
	Usage(node string) (cpuMilli, memoryBytes int64)
}
