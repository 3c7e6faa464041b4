package sharing

import (
	"fmt"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

// ShareSize is how large a share of one GPU is. At least one of its fields is
// set; what is not set follows from the GPU that the share is of.
type ShareSize struct {
	// MilliGPU is of compute, 1 to 1000. Where MemoryMiB is 0 the share has as
	// large a part of the memory, rounded down to a byte.
	MilliGPU int64
	// MemoryMiB is of the GPU's memory. The share has as large a part of the
	// compute, rounded down but at least one milli-GPU, and MilliGPU if that is
	// more.
	MemoryMiB int64
}

// mostMiB is more memory than any GPU has, and keeps products within an int64.
const mostMiB = 1 << 30

// valid says what is wrong with a size, or nil.
func (s ShareSize) valid() error {
	switch {
	case s.MilliGPU < 0 || s.MilliGPU > 1000:
		return fmt.Errorf("a share of %d milli-GPUs of one GPU: ask for 1 to 1000", s.MilliGPU)
	case s.MemoryMiB < 0 || s.MilliGPU == 0 && s.MemoryMiB == 0:
		return fmt.Errorf("a share of %d MiB of GPU memory: ask for 1 at least", s.MemoryMiB)
	}
	return nil
}

// Of returns what a share of this size takes of a GPU with so much memory, in
// milli-GPUs and bytes. Shares of which the GPU has enough left in both never
// come to more than the GPU. memoryBytes of 0 is unknown: all of the compute
// goes with any memory then.
//
// It rounds as package cluster does (ShareBytes, ShareMilli), so that a
// Snapshot and a Ledger count the same.
func (s ShareSize) Of(memoryBytes int64) (milli, bytes int64) {
	if s.MemoryMiB <= 0 {
		return s.MilliGPU, memoryBytes * s.MilliGPU / 1000
	}
	milli, bytes = 1000, min(s.MemoryMiB, mostMiB)<<20
	if memoryBytes > 0 {
		milli = max(1, min(1000, bytes*1000/memoryBytes))
	}
	return max(milli, s.MilliGPU), bytes
}

// String writes a size as people ask for it: "0.5", "3000 MiB", "6 GiB", and
// "0.5 and 3000 MiB" where both are asked for.
func (s ShareSize) String() string {
	part := strconv.FormatFloat(float64(s.MilliGPU)/1000, 'f', -1, 64)
	switch {
	case s.MemoryMiB == 0:
		return part
	case s.MilliGPU == 0:
		return sizeText(min(s.MemoryMiB, mostMiB) << 20)
	}
	return part + " and " + sizeText(min(s.MemoryMiB, mostMiB)<<20)
}

// sizeText writes memory in GiB where it is whole GiB, else in MiB, rounded
// down.
func sizeText(bytes int64) string {
	if bytes%GiB == 0 {
		return strconv.FormatInt(bytes/GiB, 10) + " GiB"
	}
	return strconv.FormatInt(bytes>>20, 10) + " MiB"
}

// SizeID is the device ID of a share by size: UUID "::" size "-" serial, where
// size is "mem-6" for GiB, "mem-3000Mi" for MiB, "milli-500" for milli-GPUs, and
// "milli-500-mem-6" for both. The size is part of it, so that a ledger can be
// restored from IDs alone.
func SizeID(uuid string, s ShareSize, serial int) string {
	var b strings.Builder
	b.WriteString(uuid + "::")
	if s.MilliGPU > 0 {
		fmt.Fprintf(&b, "milli-%d-", s.MilliGPU)
	}
	switch {
	case s.MemoryMiB > 0 && s.MemoryMiB%1024 == 0:
		fmt.Fprintf(&b, "mem-%d-", s.MemoryMiB/1024)
	case s.MemoryMiB > 0:
		fmt.Fprintf(&b, "mem-%dMi-", s.MemoryMiB)
	}
	b.WriteString(strconv.Itoa(serial))
	return b.String()
}

// ParseSizeID reads a device ID of SizeID. ok is false for one of another form,
// which is its own UUID then.
func ParseSizeID(id string) (uuid string, s ShareSize, ok bool) {
	uuid, rest, found := strings.Cut(id, "::")
	if !found {
		return id, ShareSize{}, false
	}
	if text, is := strings.CutPrefix(rest, "milli-"); is {
		text, rest, _ = strings.Cut(text, "-")
		if s.MilliGPU = number(text); s.MilliGPU == 0 {
			return id, ShareSize{}, false
		}
	}
	if text, is := strings.CutPrefix(rest, "mem-"); is {
		text, _, _ = strings.Cut(text, "-")
		unit := int64(1024)
		if text, is = strings.CutSuffix(text, "Mi"); is {
			unit = 1
		}
		if s.MemoryMiB = min(number(text), mostMiB) * unit; s.MemoryMiB == 0 {
			return id, ShareSize{}, false
		}
	}
	if s.valid() != nil {
		return id, ShareSize{}, false
	}
	return uuid, s, true
}

// number reads a positive number; anything else is 0.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(0, n)
}

// shareDevice makes a share of g.
func shareDevice(g *gpu.GPU, id string, s ShareSize) Device {
	d := Device{
		ID: id, Resource: ResourceMemory, UUID: g.UUID, GPU: g.Index, Healthy: g.Healthy, Clique: g.Clique, NUMANode: g.NUMANode,
	}
	d.MilliGPU, d.MemoryBytes = s.Of(g.MemoryBytes)
	return d
}
