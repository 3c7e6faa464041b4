// Package smi answers as nvidia-smi does, for GPUs that are simulated. It reads
// a View and writes text; it changes no GPU and runs nothing on the host.
package smi

import (
	"time"

	"berth.dev/berth/core/gpu"
)

// Process is one process that uses a GPU.
type Process struct {
	PID              int
	Type             string // "C" is compute, "G" graphics, "C+G" both; "" is "C"
	Name             string
	MemoryBytes      int64
	UtilizationRatio float64 // 0-1 of the device, for pmon
	MIG              string  // UUID of the MIG device it runs on; "" is the whole GPU
}

// Device is one GPU as the caller sees it. In a container that holds a MIG
// device, GPU.MIG lists that device alone.
type Device struct {
	GPU       gpu.GPU
	Reading   gpu.Reading            // of the whole GPU
	MIG       map[string]gpu.Reading // by UUID of the MIG device
	Processes []Process
}

// View is all that nvidia-smi can see at one moment.
type View struct {
	Node    string    // the node's name, for the line that says it is simulated
	Driver  string    // such as "570.124.06"
	CUDA    string    // the driver's CUDA level, such as "12.8"
	Now     time.Time // printed in its own location
	Devices []Device  // in index order
	// DriverLost says that the node's driver does not answer: nvidia-smi shows
	// nothing but that.
	DriverLost bool
}
