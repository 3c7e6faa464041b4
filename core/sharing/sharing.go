// Package sharing says how the GPUs of one node are divided into devices, and
// which owner holds which of them. It does not choose the node, and it reads no
// configuration file; those are packages placement and config.
package sharing

import (
	"fmt"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

// GiB is one gibibyte, the unit of nvidia.com/gpu-memory.
const GiB = 1 << 30

// Device is one thing that can be given to one container: a whole GPU, a MIG
// device, or a share of either.
type Device struct {
	ID          string // the UUID, or a share's: see ShareID and SizeID
	Resource    string // such as "nvidia.com/gpu"; of every share by size ResourceMemory, however it was asked for
	UUID        string // of the GPU or MIG device
	GPU         int    // index of the GPU
	Profile     string // MIG profile; "" is a whole GPU or a share of one
	Replica     int    // number of the share, from 0; 0 if not shared
	MilliGPU    int64  // compute, 1000 is the whole GPU; rounded down
	MemoryBytes int64  // may use; with time-slicing, nothing keeps it to less than the parent's
	Healthy     bool
	Clique      int // of the GPU: equal and not 0 share an NVLink fabric
	NUMANode    int // of the GPU; -1 is unknown
}

// ShareID is the device ID of one replica, as NVIDIA's device plugin writes
// it: UUID "::" replica.
func ShareID(uuid string, replica int) string { return uuid + "::" + strconv.Itoa(replica) }

// MemoryID is the device ID of a share of whole GiB: UUID "::mem-" GiB "-"
// serial. It is that of ShareSize{MemoryMiB: 1024 * gib}.
func MemoryID(uuid string, gib int64, serial int) string {
	return fmt.Sprintf("%s::mem-%d-%d", uuid, gib, serial)
}

// ParseID takes a device ID apart. replica is -1 unless the ID is a replica's;
// gib is 0 unless it is a share of whole GiB. Of other shares by size it gives
// the UUID alone: see ParseSizeID. An ID of another form is its own UUID.
func ParseID(id string) (uuid string, replica int, gib int64) {
	if uuid, size, ok := ParseSizeID(id); ok {
		if size.MilliGPU == 0 && size.MemoryMiB%1024 == 0 {
			gib = size.MemoryMiB / 1024
		}
		return uuid, -1, gib
	}
	uuid, rest, ok := strings.Cut(id, "::")
	if !ok {
		return id, -1, 0
	}
	if n, err := strconv.Atoi(rest); err == nil && n >= 0 {
		return uuid, n, 0
	}
	return id, -1, 0
}

// Check says whether the GPUs of a node can be shared as s says; the texts
// are those of NVIDIA's device plugin and its MPS daemon, with the next step.
// It reports the first of: more shares or devices than MostReplicas and
// MostDevices, MPS together with MIG, more shares than MPS allows, and MIG devices
// that strategy single cannot offer as one resource.
func Check(gpus []gpu.GPU, s gpu.Sharing) error {
	if err := CheckReplicas(s); err != nil {
		return err
	}
	if err := checkAmount(gpus, s); err != nil {
		return err
	}
	if s.Strategy == gpu.SharingMPS {
		if err := checkMPS(gpus, s); err != nil {
			return err
		}
	}
	if s.MIGStrategy != gpu.MIGSingle {
		return nil
	}
	return checkSingle(gpus)
}

func checkMPS(gpus []gpu.GPU, s gpu.Sharing) error {
	if s.MIGStrategy == gpu.MIGMixed {
		return fmt.Errorf("using --mig-strategy=mixed is not supported with MPS; use timeSlicing, or another migStrategy")
	}
	n := s.Replicas[gpu.ResourceGPU]
	for _, g := range gpus {
		if g.MIGEnabled {
			return fmt.Errorf("sharing using MPS is not supported for MIG devices: GPU %d has MIG on; use timeSlicing, or turn MIG off", g.Index)
		}
		p, ok := gpu.Find(g.Product)
		if ok && n > p.MPSClients {
			return fmt.Errorf("maximum allowed replicas exceeded: %d > %d on GPU %d, %s; ask for %d at most, or use timeSlicing",
				n, p.MPSClients, g.Index, g.Product, p.MPSClients)
		}
	}
	return nil
}

// checkSingle wants all GPUs with MIG off, or all cut into one profile.
func checkSingle(gpus []gpu.GPU) error {
	on, profile := 0, ""
	for _, g := range gpus {
		if g.MIGEnabled {
			on++
		}
	}
	if on == 0 {
		return nil
	}
	if on < len(gpus) {
		return fmt.Errorf("all devices on the node must be configured with the same migEnabled value: %d of %d have MIG on; use migStrategy mixed", on, len(gpus))
	}
	for _, g := range gpus {
		if len(g.MIG) == 0 {
			return fmt.Errorf("at least one device with migEnabled=true was not configured correctly: device %d has no MIG devices configured; cut it, or turn its MIG off", g.Index)
		}
		for _, m := range g.MIG {
			if profile != "" && m.Profile != profile {
				return fmt.Errorf("more than one MIG device type present on node: %s and %s; use migStrategy mixed", profile, m.Profile)
			}
			profile = m.Profile
		}
	}
	return nil
}
