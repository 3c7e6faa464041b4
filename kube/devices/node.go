package devices

import (
	"time"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/kube/request"
)

// Node is one node's GPUs.
type Node struct {
	Name    string
	Product string            // label form, such as "NVIDIA-A100-SXM4-40GB"; the most common where there are several
	Labels  map[string]string // of the Node object; read only
	Taints  []string          // as kubectl writes them, such as "nvidia.com/gpu=present:NoSchedule", in their order
	GPUs    []GPU             // by index
	// Unplaced is what is held here by pods whose device is not known. It
	// counts on the node, not on a GPU.
	Unplaced []Holder
	Count
	// Devices is how many whole GPUs, MIG devices and shares the node offers,
	// as its capacity says, and DevicesHeld how many of them are held. A share
	// by memory is not one of them.
	Devices, DevicesHeld int
	Sharing              string // "shares", "MIG devices", or "" where every device is a whole GPU
	// ClaimOnly is how many GPUs and MIG devices a DRA driver offers to claims here, where no
	// GPU is offered as a resource; see DRA.Only. Count leaves them out.
	ClaimOnly int
	Remark    string // why nothing more can be placed here, such as "cordoned"; "" is nothing
	HeldBy    []Holding
	// Published says that the node lists its GPUs in berth.dev/inventory, and
	// Unreadable why that annotation cannot be read; the GPUs are those of labels and
	// capacity then.
	Published  bool
	Unreadable error
}

// Count adds up physical GPUs, whole or in parts: 56 MIG devices of 8 GPUs are
// 8 GPUs, and so are 32 shares of 8 GPUs. Amounts in milli-GPUs (1000 is one
// GPU) always add up:
//
//	Held + Free + Broken + Closed == 1000 * Physical
type Count struct {
	Physical  int   // GPUs
	Unhealthy int   // GPUs, held or not
	Held      int64 // milli-GPUs that pods hold, on unhealthy GPUs too
	Free      int64 // milli-GPUs that a new pod could get; slices that MIG leaves uncut are among it
	Broken    int64 // milli-GPUs of unhealthy GPUs that no pod holds
	Closed    int64 // milli-GPUs that no pod holds on nodes that take no pods for them; see Node.Remark and ClaimOnly

	Busy      float64 // mean utilization ratio of the GPUs that are held at all, 0-1
	BusyKnown bool    // false: no reading; see View.SetBusy
	// Prices is what an hour costs of those nodes that have a price, by currency; see View.SetPrices.
	Prices []cost.Amount
}

// Holding is how much of a node one owner holds.
type Holding struct {
	request.Owner
	MilliGPU int64 // at least 1
	Pods     int   // of the owner, on this node
	Waiting  int   // pods of the owner, in the whole cluster, that have no node
}

// GPU is one physical card.
type GPU struct {
	Index         int    // NVML index; -1 where it is not published
	UUID          string // UnknownUUID where it is not published
	Product       string // label form
	MemoryBytes   int64  // 0 is unknown
	Healthy       bool
	Xid           int // last Xid; 0 is none
	Shares        int // replicas of each device; 0 is not shared
	ComputeSlices int // 0 is no MIG
	Clique        int // GPUs of a node with equal Clique share an NVLink fabric; 0 is none
	NUMANode      int // -1 is unknown
	MIG           []MIGDevice
	Holders       []Holder // of the GPU or of shares of it; those of MIG devices are there
	Held          int64    // milli-GPUs, of MIG devices too; at most 1000
}

// MIGDevice is one hardware partition of a GPU.
type MIGDevice struct {
	InventoryMIG
	Shares  int // into which the device is divided; 0 is not shared
	Holders []Holder
}

// Holder is one container with one device.
type Holder struct {
	request.Owner
	Pod         string
	Container   string
	User        string // see User
	Since       time.Time
	UUID        string // of the GPU or MIG device; UnknownUUID if it is not known
	Resource    string // under which it was asked for; "" for committed devices
	MilliGPU    int64  // part of a physical GPU, rounded down
	MemoryBytes int64  // that the container may use: all of a device shared by time-slicing; 0 is unknown
	Stuck       string // why its pod cannot run, such as "cannot pull image"; "" is that nothing keeps it

	part part // of a physical GPU, exact for MIG and shares
}

// EachHolder calls f for every holder on the node, GPU by GPU, then for those
// without a known device.
func (n *Node) EachHolder(f func(Holder)) {
	each := func(list []Holder) {
		for _, h := range list {
			f(h)
		}
	}
	for _, g := range n.GPUs {
		each(g.Holders)
		for _, m := range g.MIG {
			each(m.Holders)
		}
	}
	each(n.Unplaced)
}
