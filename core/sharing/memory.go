package sharing

import (
	"cmp"
	"fmt"
	"strconv"

	"berth.dev/berth/core/gpu"
)

// TakeMemory gives owner a share of gib GiB of one healthy, unshared GPU: of
// the one that has the least left and still enough, so that GPUs stay whole;
// ties by index. Its MilliGPU is in proportion to its memory.
func (l *Ledger) TakeMemory(owner string, gib int64) (Device, error) {
	if owner == "" {
		return Device{}, errNoOwner
	}
	if gib <= 0 {
		return Device{}, fmt.Errorf("a share of %d GiB of GPU memory: ask for 1 at least", gib)
	}
	var best *gpu.GPU
	var most int64
	for _, g := range l.memory {
		if _, whole := l.held[g.UUID]; whole || !g.Healthy {
			continue
		}
		left := l.left(g.UUID)
		most = max(most, left)
		if left < gib {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(left, l.left(best.UUID)), cmp.Compare(g.Index, best.Index)) < 0 {
			best = &g
		}
	}
	if best == nil {
		return Device{}, unavailable(ResourceMemory, strconv.FormatInt(gib, 10), strconv.FormatInt(most, 10))
	}
	serial := 0
	for l.held[MemoryID(best.UUID, gib, serial)].Owner != "" {
		serial++
	}
	d := memoryDevice(*best, MemoryID(best.UUID, gib, serial), gib)
	l.hold(owner, d)
	return d, nil
}

// memoryDevice makes a share by memory of g.
func memoryDevice(g gpu.GPU, id string, gib int64) Device {
	d := Device{
		ID: id, Resource: ResourceMemory, UUID: g.UUID, GPU: g.Index,
		MemoryBytes: gib * GiB, Healthy: g.Healthy, Clique: g.Clique, NUMANode: g.NUMANode,
	}
	if total := g.MemoryBytes / GiB; total > 0 {
		d.MilliGPU = 1000 * min(gib, total) / total
	}
	return d
}

// left gives the GiB of a GPU that shares by memory have not taken.
func (l *Ledger) left(uuid string) int64 {
	if n, ok := l.free[uuid]; ok {
		return n
	}
	return l.memory[uuid].MemoryBytes / GiB
}
