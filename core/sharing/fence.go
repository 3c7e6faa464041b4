package sharing

// Fence is what keeps pods that use GPUs in one way from each other, for people.
type Fence struct {
	Isolation string // of work and of faults
	Memory    string // whether a pod can use the GPU memory of others
	Safe      bool   // no pod can take memory from another
}

// Fence returns what keeps the pods of a way from others. If there are several ways, such as a share by time of a MIG device, the weakest
// counts: it is what pods on the same device have between them.
//
// Source: NVIDIA, Multi-Instance GPU User Guide, and Multi-Process Service, limits and memory protection.
func (w Ways) Fence() Fence {
	switch {
	case w&WayTimeSlicing != 0:
		return Fence{"none: pods take turns on the GPU, and a fault of one may end others", "not protected: each pod can fill the GPU", false}
	case w&WayMemory != 0:
		return Fence{"none: pods take turns on the GPU, and a fault of one may end others", "counted, not enforced: a pod can use more than its share", false}
	case w&WayMPS != 0:
		return Fence{"part: a limit of threads for each pod, but a fatal fault may end others", "limited for each pod by the MPS daemon", true}
	case w&WayMIG != 0:
		return Fence{"in hardware: own compute, and own faults", "own memory", true}
	case w&WayWhole != 0:
		return Fence{"has the whole GPU", "all memory of the GPU", true}
	}
	return Fence{"not known", "not known", false}
}
