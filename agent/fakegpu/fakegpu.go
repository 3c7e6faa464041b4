// Package fakegpu is GPUs that do not exist, in two parts.
//
// Read gives their readings: utilization, memory, temperature, power, clocks and
// counters, worked out from what runs on them. It is pure: equal arguments give
// equal readings.
//
// Library is a driver of such GPUs behind the seam of package nvml: a state
// machine read from a text file that a person edits, with MIG as hardware has
// it, Xids, lost GPUs, calls that hang and drivers that lack a function.
//
// It does not decide who gets which GPU.
package fakegpu

import "time"

// Point is one step of a load's curve: from After on, until the next point.
type Point struct {
	After            time.Duration // since the load's Start
	UtilizationRatio float64       // 0-1
	MemoryBytes      int64
}

// Load is what one process of a container does on one GPU or MIG device.
type Load struct {
	Namespace, Pod, Container string
	Process                   string // executable, as nvidia-smi shows it
	PID                       int    // in the node's PID namespace

	// MIG is the UUID of the MIG device the load runs on. "" is the whole GPU,
	// or, in a reading of a MIG device, that device.
	MIG string

	// MilliGPU is how much of the GPU the container holds; 1000 is all of it.
	// It matters only for a load without MIG in a reading of a whole GPU that is
	// partitioned with MIG: there the load counts for MilliGPU/1000 of its utilization.
	// A time-slicing share is no fence: such a load may use the whole device.
	MilliGPU int64

	// UtilizationRatio is 0-1 of the GPU or MIG device the load runs on. It
	// holds until the first point of Curve.
	UtilizationRatio float64
	// MemoryBytes is what the load has allocated until the first point of Curve.
	MemoryBytes int64

	Start time.Time // before it, the load does not count
	End   time.Time // from it on, only what was used counts; zero is running

	// Curve is in order of After. Empty means constant, with a little noise.
	Curve []Point

	// Asked is the ratio that requests make of it at the moment of a reading, where that is more. Totals, such as energy,
	// are without it.
	Asked float64

	// Peers is the number of other GPUs of the node that the same container
	// holds. With peers, a load on a GPU with NVLink moves data over it.
	Peers int
}

// Faults is what is wrong with a GPU.
type Faults struct {
	Thermal bool // 92 C, and clocks throttled
	Xid     int  // last Xid; 0 is none beyond GPU.Xid
}
