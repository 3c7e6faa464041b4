package controlplane

import "berth.dev/berth/internal/heap"

// The garbage collector's growth targets in percent. Starting allocates much
// that is kept; a cluster at rest is worth more collections than memory; one
// that works hard is not, but its heap grows to busyHeap at most, or to twice of
// what is live: what a burst of work leaves behind are pages with holes, as many as
// the heap was large, and they are not released.
const (
	startingGC = 400
	mostBusyGC = 200
	restingGC  = 25
	busyHeap   = 800 << 20 // bytes
)

// growth is that of a control plane.
func growth() heap.Growth {
	return heap.Growth{Starting: startingGC, Resting: restingGC, Busy: busyGC, BusyShare: 0.7, RestShare: 0.3}
}

// busyGC is the growth target for a heap of so many live bytes under hard work.
func busyGC(live uint64) int {
	if live == 0 {
		return mostBusyGC
	}
	return int(min(max(100, 100*(busyHeap-min(busyHeap, live))/live), mostBusyGC))
}
