// Package gpu says what a node has: GPUs, their MIG devices, memory, links and
// health, the catalog of known products, and the labels that describe them.
// It does not say how a GPU is divided among pods; that is package sharing.
package gpu

// GPU is one physical card of a node.
type GPU struct {
	Index       int    // NVML index; changes across reboots, so never store it
	UUID        string // "GPU-" and an RFC 4122 UUID
	Product     string // name as NVML gives it, such as "NVIDIA A100-SXM4-40GB"
	MemoryBytes int64  // total memory
	BusID       string // PCI address, such as "00000000:1A:00.0"
	NUMANode    int    // -1 is unknown
	Clique      int    // GPUs of a node with equal Clique share an NVLink fabric; 0 is none
	Healthy     bool
	Xid         int // last Xid seen; 0 is none
	MIGEnabled  bool
	MIG         []MIGDevice // in placement order; empty unless MIGEnabled
}

// MIGDevice is one hardware partition of a GPU.
type MIGDevice struct {
	UUID        string // "MIG-" and an RFC 4122 UUID
	Profile     string // such as "1g.5gb"
	Start       int    // first memory slice, as in nvidia-smi mig -lgipp
	GI, CI      int    // GPU instance and compute instance IDs
	Slices      int    // compute slices, of Product.ComputeSlices
	MemoryBytes int64
	Unhealthy   bool // by itself, on a GPU that is healthy
}

// MIGStrategy says how MIG devices are offered: as NVIDIA's device plugin does.
type MIGStrategy string

// The strategies of NVIDIA's device plugin (its configuration's
// flags.migStrategy).
const (
	MIGNone   MIGStrategy = "none"   // GPUs are offered whole even with MIG on
	MIGSingle MIGStrategy = "single" // MIG devices stand for nvidia.com/gpu
	MIGMixed  MIGStrategy = "mixed"  // each profile is a resource of its own
)

// SharingStrategy says how one device is divided among containers.
type SharingStrategy string

// The sharing strategies, in the words of GPU Feature Discovery's label
// nvidia.com/gpu.sharing-strategy.
const (
	SharingNone        SharingStrategy = "none"
	SharingMPS         SharingStrategy = "mps"
	SharingTimeSlicing SharingStrategy = "time-slicing"
)

// Sharing is what a node's device plugin has been told: the part of NVIDIA's
// configuration file that decides what is offered. The zero value offers every
// GPU whole.
type Sharing struct {
	MIGStrategy                MIGStrategy     `json:"migStrategy,omitempty"` // "" is none
	Strategy                   SharingStrategy `json:"strategy,omitempty"`    // "" is none
	RenameByDefault            bool            `json:"renameByDefault,omitempty"`
	FailRequestsGreaterThanOne bool            `json:"failRequestsGreaterThanOne,omitempty"`
	// Replicas maps a resource name with its prefix (nvidia.com/gpu,
	// nvidia.com/mig-1g.5gb) to the shares of each of its devices, at least 2.
	Replicas map[string]int `json:"replicas,omitempty"`
	// Devices says which devices of a resource are shared; the others are
	// offered whole. A device is named by the index of its GPU ("0"), which is
	// all MIG devices of it too, by that and its own within the GPU ("0:1", in
	// placement order), or by a UUID of either. A resource that is not in the map
	// is shared on all devices.
	Devices map[string][]string `json:"devices,omitempty"`
	// Packed prefers the GPU with the most shares held; false is the least.
	Packed bool `json:"packed,omitempty"`
}

// Node is what is known of one node's GPUs and driver.
type Node struct {
	GPUs          []GPU
	DriverVersion string // such as "570.124.06"
	CUDAVersion   string // the driver's CUDA level, such as "12.8"
	Machine       string // DMI product name; "" is unknown
}

// Reading is what one GPU or MIG device shows at one moment.
type Reading struct {
	UtilizationRatio        float64 // 0-1, some kernel ran
	MemoryUtilization       float64 // 0-1, memory controller busy
	MemoryUsedBytes         int64   // without what the driver reserves
	MemoryReservedBytes     int64   // kept by the driver; free = total - used - reserved
	TemperatureCelsius      int
	MemoryTempCelsius       int
	PowerWatts              float64
	PowerLimitWatts         float64
	SMClockMHz              int
	MemoryClockMHz          int
	EnergyMillijoules       int64 // since the driver was loaded
	PCIeReplays             int64
	Xid                     int // last Xid; 0 is none
	ThermalThrottled        bool
	TensorActiveRatio       float64
	DRAMActiveRatio         float64
	PCIeTxBytesPerSecond    float64
	PCIeRxBytesPerSecond    float64
	NVLinkBytesPerSecond    float64
	NVLinkBytes             int64   // both directions, since the driver was loaded
	EncoderRatio            float64 // 0-1, video encoder busy
	DecoderRatio            float64 // 0-1, video decoder busy
	RemappedRows            int64   // memory rows replaced after uncorrectable errors
	CorrectableRemappedRows int64   // memory rows replaced after many correctable errors
	RowRemapFailed          bool    // a row could not be replaced
}
