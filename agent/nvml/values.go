package nvml

import (
	"log/slog"
	"time"

	"berth.dev/berth/core/gpu"
)

// Snapshot is what the driver says of a node at one moment.
type Snapshot struct {
	Driver string // version, such as "570.124.06"
	CUDA   string // the driver's CUDA level, such as "12.8"
	GPUs   []GPU  // in index order
	// Failed says why nothing could be read, such as "NVML library not found: ...".
	// "" is fine; then no GPUs means that there are none.
	Failed string
	Fake   bool // the GPUs do not exist
}

// Node returns what package gpu holds of the snapshot. Lost GPUs are in it, not
// healthy. Machine is not known to the driver and stays empty.
func (s Snapshot) Node() gpu.Node {
	n := gpu.Node{DriverVersion: s.Driver, CUDAVersion: s.CUDA}
	for _, g := range s.GPUs {
		n.GPUs = append(n.GPUs, g.GPU)
	}
	return n
}

// Find returns the GPU that has the UUID, or whose MIG device has it; device is
// nil for a whole GPU.
func (s Snapshot) Find(uuid string) (g GPU, device *gpu.MIGDevice, ok bool) {
	for _, g := range s.GPUs {
		if g.UUID == uuid {
			return g, nil, true
		}
		for i := range g.MIG {
			if g.MIG[i].UUID == uuid {
				return g, &g.MIG[i], true
			}
		}
	}
	return GPU{}, nil, false
}

// GPU is one physical GPU. Of the embedded value, Healthy is false when the GPU
// is lost, and Xid is the last one that this child process has seen.
type GPU struct {
	gpu.GPU
	Minor                      int    // N of /dev/nvidiaN
	ComputeMajor, ComputeMinor int    // CUDA compute capability
	Display                    bool   // PCI class 0x0300 (display) instead of 0x0302 (3D controller)
	PCIID                      uint32 // PCI.ID, as device filters of MIG configurations name it; 0 is unknown
	SubsystemID                uint32 // PCI.SubsystemID, as such filters may name it after a colon; 0 is unknown
	MIGCapable                 bool
	MIGPending                 bool          // the MIG mode changes at the next reset of the GPU
	Multiprocessors            int           // of the whole GPU; 0 is unknown
	ComputeSlices              int           // for MIG: 7, or 4 on A30; 0 is no MIG
	Profiles                   []gpu.Profile // MIG profiles as the driver tells them
	Fabric                     string        // "<cluster UUID>.<clique>" of a multi-node NVLink fabric; "" is none
	// Links counts the NVLinks to each other GPU of the node, by its UUID.
	// Through NVSwitch, every link reaches every GPU.
	Links map[string]int
	Nodes []string // its own device nodes on the host, such as /dev/nvidia0
	// MIGNodes are the further device nodes of a MIG device (nvidia-caps), by
	// its UUID.
	MIGNodes map[string][]string
	Lost     bool // the driver cannot reach it; what follows the UUID may be old
}

// Sample is what one GPU or MIG device shows.
type Sample struct {
	UUID    string // of the GPU or MIG device
	Reading gpu.Reading
	// Absent names the fields of Reading that the driver does not give for this
	// device, such as "TensorActiveRatio", sorted. They are zero in Reading.
	Absent []string
	// More holds the measures that were asked for, in that order; 0 for those that
	// are Absent.
	More []float64 `json:",omitempty"`
	// Processes run on the GPU or MIG device. A GPU partitioned with MIG has none of its
	// own.
	Processes []Process
}

// Process is one process on a GPU or MIG device.
type Process struct {
	PID         int   // in the PID namespace of the child, the host's as a rule
	MemoryBytes int64 // -1 is unknown
}

// Event is an Xid of a GPU, or the loss of one.
type Event struct {
	UUID   string // of the whole GPU; "" is a GPU that the driver could not name
	Xid    int    // 0 with Lost
	GI, CI int    // of the MIG device that was hit; -1 is the whole GPU
	Lost   bool   // the driver cannot reach the GPU any more
	At     time.Time
}

// Options say how a Client runs its child.
type Options struct {
	Command []string     // program and arguments; must not be empty
	Env     []string     // "NAME=value"; nil is the parent's environment
	Log     *slog.Logger // of starts, ends and the child's stderr; nil is none
	// Timeout is how long a quick call (Samples, Probe) may take before the
	// child is killed; the others, which wait for hardware, get six times as
	// much. 0 is 10 s.
	Timeout time.Duration
	// Backoff is the first wait before a restart; it doubles up to 60 times
	// itself while the child does not stay up. 0 is 0.5 s.
	Backoff time.Duration
}
