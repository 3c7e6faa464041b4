package nvml

import "time"

// Library is NVML as far as a node agent needs it: one method for one NVML
// call, in Go's types, and nothing decided. Package real of cmd/berth-nvml
// implements it over NVIDIA's library, package fakegpu over a text file.
//
// Every error is an Error or wraps one. A call that the loaded driver lacks
// gives FunctionNotFound: an implementation looks its symbol up first, since
// calling it would end the process. All methods are safe for concurrent use.
type Library interface { //nolint:interfacebloat // NVML is the one seam that is wider: a call each
	// Init loads the library and connects to the driver (nvmlInit_v2). It may be
	// called again after Shutdown, or after an error.
	Init() error
	// Shutdown lets go of the driver; handles are void then.
	Shutdown() error
	DriverVersion() (string, error) // such as "570.124.06"
	CUDAVersion() (int, error)      // 1000*major + 10*minor: nvmlSystemGetCudaDriverVersion_v2
	DeviceCount() (int, error)
	// Device returns the GPU of an index from 0 (nvmlDeviceGetHandleByIndex_v2).
	// GPUIsLost and others may come for one index while the next is fine.
	Device(index int) (Device, error)
	// NewEventSet makes a set that no GPU is registered with.
	NewEventSet() (EventSet, error)
	// GPMMetrics compares two samples of the same device, the older first; one
	// value for each of ids, NaN where the driver gives none.
	GPMMetrics(from, to GPMSample, ids []int) ([]float64, error)
	// CDI returns a CDI specification as JSON: common edits, and one device per
	// GPU and MIG device, named by its UUID.
	CDI() ([]byte, error)
	// Changes tells that GPUs came, went or were changed from outside; the
	// channel holds one value and is never closed. nil is an implementation that
	// cannot know, as NVML itself.
	Changes() <-chan struct{}
	// Fake says that the GPUs do not exist.
	Fake() bool
}

// Device is a GPU or, where said, a MIG device.
type Device interface { //nolint:interfacebloat // as Library
	UUID() (string, error)                            // also of MIG devices
	Name() (string, error)                            // such as "NVIDIA H200"
	Minor() (int, error)                              // N of /dev/nvidiaN
	PCI() (PCI, error)                                // nvmlDeviceGetPciInfoExt
	NUMANode() (int, error)                           // numa_node of the PCI device in sysfs; -1 is none
	ComputeCapability() (major, minor int, err error) // nvmlDeviceGetCudaComputeCapability
	Cores() (int, error)                              // CUDA cores: nvmlDeviceGetNumGpuCores
	Memory() (Memory, error)                          // also of MIG devices: nvmlDeviceGetMemoryInfo_v2, else without reserve
	Nodes() ([]string, error)                         // device nodes on the host; of MIG devices, the nvidia-caps alone

	Utilization() (gpu, memory int, err error)       // percent
	Temperature() (int, error)                       // of the GPU, in C
	Power() (int64, error)                           // mW
	PowerLimit() (int64, error)                      // mW: nvmlDeviceGetEnforcedPowerLimit
	Energy() (int64, error)                          // mJ: nvmlDeviceGetTotalEnergyConsumption
	Clock(domain int) (int, error)                   // MHz: ClockSM, ClockMemory
	ClockReasons() (uint64, error)                   // nvmlDeviceGetCurrentClocksEventReasons, or its older name
	PCIeReplays() (int64, error)                     // since the driver was loaded
	EncoderUtilization() (int, error)                // percent
	DecoderUtilization() (int, error)                // percent
	RemappedRows() (RemappedRows, error)             // nvmlDeviceGetRemappedRows
	Number(n Number) (int64, error)                  // what a call of its own gives; see Number
	Field(id int, scope uint32) (int64, error)       // nvmlDeviceGetFieldValues of one field, unsigned as it is
	ComputeProcesses() ([]Process, error)            // also of MIG devices; at most once per PID
	GraphicsProcesses() ([]Process, error)           // also of MIG devices
	GPMSupported() (bool, error)                     // nvmlGpmQueryDeviceSupport
	GPMSample(gi int) (GPMSample, error)             // of a GPU instance; -1 is the whole GPU
	NVLink(link int) (NVLink, error)                 // link from 0; NotSupported or InvalidArgument after the last
	Fabric() (string, error)                         // "<cluster UUID>.<clique>"; "" is none or not ready
	SupportedEvents() (uint64, error)                // a mask of the Event... constants
	SetComputeMode(mode int) error                   // ComputeDefault, ComputeExclusive
	SetMemoryLimit(cgroup string, bytes int64) error // soft and hard, of processes in the cgroup v2 folder; nvmlDeviceSetMemoryLimits_v1

	MIGMode() (current, pending bool, err error)
	// SetMIGMode asks for a mode. activation is why it is only pending, such as
	// InUse or ResetRequired; nil is in force.
	SetMIGMode(on bool) (activation, err error)
	MaxMIGDevices() (int, error)
	MIGDevice(index int) (Device, error) // NotFound where the index is free
	// GPUInstanceProfile takes the number of a shape from 0 to GPUInstanceShapes-1
	// (NVML_GPU_INSTANCE_PROFILE_...), not an ID.
	GPUInstanceProfile(shape int) (GPUInstanceProfile, error)
	Placements(profile int) ([]Placement, error)     // of a profile's ID
	GPUInstances(profile int) ([]GPUInstance, error) // those of a profile's ID
	// CreateGPUInstance partitions at a place: InsufficientResources where there is no
	// room.
	CreateGPUInstance(profile int, at Placement) (GPUInstance, error)
	DestroyGPUInstance(gi int) error // InUse while it has a compute instance
	// ComputeInstanceProfile takes the number of a shape from 0 to
	// ComputeInstanceShapes-1 with the shared engines.
	ComputeInstanceProfile(gi, shape int) (ComputeInstanceProfile, error)
	ComputeInstances(gi, profile int) ([]int, error) // IDs of those of a profile's ID
	CreateComputeInstance(gi, profile int) (ci int, err error)
	DestroyComputeInstance(gi, ci int) error // InUse while a process uses it

	GPUInstanceID() (int, error)     // of MIG devices only
	ComputeInstanceID() (int, error) // of MIG devices only
	Attributes() (Attributes, error) // of MIG devices only: nvmlDeviceGetAttributes_v2
}

// EventSet waits for events of the GPUs that are registered with it.
type EventSet interface {
	Register(d Device, events uint64) error // NotSupported: the GPU has none of them
	// Wait gives Timeout when nothing came. GPUIsLost: a GPU was lost, and which
	// one is not said.
	Wait(timeout time.Duration) (EventData, error)
	Close() error
}

// GPMSample is the counters of a device at one moment. Free it.
type GPMSample interface{ Free() }

// Number is a value of a GPU that one call of NVML gives.
type Number int

// The numbers.
const (
	NumberFan            Number = iota + 1 // percent: nvmlDeviceGetFanSpeed
	NumberPCIeTx                           // KB a second over the last 20 ms: nvmlDeviceGetPcieThroughput
	NumberPCIeRx                           // the same, received
	NumberPState                           // 0 is the fastest: nvmlDeviceGetPerformanceState
	NumberPCIeGeneration                   // of the link now: nvmlDeviceGetCurrPcieLinkGeneration
	NumberPCIeWidth                        // lanes: nvmlDeviceGetCurrPcieLinkWidth
)

// PCI is where a GPU is on the bus.
type PCI struct {
	BusID string // such as "00000000:1A:00.0"
	Class int    // base class and subclass: 0x0300 display, 0x0302 3D controller; 0 is unknown
	ID    uint32 // device in the upper half, vendor in the lower: 0x20B010DE; 0 is unknown
	// SubsystemID is that of the board, in the form of ID; 0 is unknown.
	SubsystemID uint32
}

// Memory is in bytes; Used is without Reserved.
type Memory struct{ Total, Used, Reserved int64 }

// RemappedRows counts memory rows that were replaced by spare ones.
type RemappedRows struct {
	Correctable, Uncorrectable int64
	Pending                    bool // one more at the next reset of the GPU
	Failed                     bool // a row could not be replaced
}

// NVLink is one link.
type NVLink struct {
	Active bool
	Switch bool   // the other end is an NVSwitch
	Remote string // PCI address of the other end, as in PCI.BusID; "" is unknown
}

// GPUInstanceProfile is a shape of GPU instance.
type GPUInstanceProfile struct {
	ID              int // as nvidia-smi prints it: 19, 14, 9, ...
	Slices          int // compute slices
	Max             int // most on one GPU
	Multiprocessors int
	MemoryMiB       int64

	CopyEngines, Decoders, Encoders, JPEG, OFA int
}

// Placement is a run of memory slices.
type Placement struct{ Start, Size int }

// GPUInstance is one that exists.
type GPUInstance struct {
	ID, Profile int // Profile is the profile's ID
	Placement   Placement
}

// ComputeInstanceProfile is a shape of compute instance within a GPU instance.
type ComputeInstanceProfile struct {
	ID     int
	Slices int // compute slices
}

// Attributes is what a MIG device is made of.
type Attributes struct {
	Multiprocessors                          int
	GPUInstanceSlices, ComputeInstanceSlices int
	MemoryMiB                                int64
}

// EventData is one event as NVML gives it.
type EventData struct {
	UUID   string // of the GPU; "" where the driver does not say
	Type   uint64
	Data   uint64 // of an Xid, its number
	GI, CI int    // -1 is the whole GPU
}

// What the calls above take and give, with NVML's numbers.
const (
	GPUInstanceShapes     = 18
	ComputeInstanceShapes = 9

	ClockSM     = 1
	ClockMemory = 2
	ClockVideo  = 3

	ComputeDefault   = 0
	ComputeExclusive = 3 // EXCLUSIVE_PROCESS

	FieldMemoryTemperature = 82  // C
	FieldNVLinkTx          = 138 // KiB since the driver was loaded
	FieldNVLinkRx          = 139
	FieldRecoveryAction    = 230 // what the driver wants done; one of the Recovery constants, since R570

	RecoveryNone     = 0
	RecoveryReset    = 1 // of the GPU
	RecoveryReboot   = 2 // of the node
	RecoveryBusReset = 6
	RecoveryPower    = 7 // the system has to be restarted

	AllLinks = ^uint32(0) // scope: the sum over all links

	EventSingleBitECC uint64 = 1 << 0
	EventDoubleBitECC uint64 = 1 << 1
	EventXid          uint64 = 1 << 3
	EventMIGChange    uint64 = 1 << 8 // MIG devices were made or removed

	ReasonThermal uint64 = 0x20 | 0x40 // clocks are lowered for heat, by software or hardware

	GPMGraphics = 1 // percent
	GPMTensor   = 5
	GPMDRAM     = 10
	GPMPCIeTx   = 20 // MiB a second
	GPMPCIeRx   = 21
	GPMNVLinkRx = 60 // MiB a second, over all links
	GPMNVLinkTx = 61
)
