package devices

import (
	"strings"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// sharingSuffix follows the name of a resource in the label that says how its devices are shared.
const sharingSuffix = ".sharing-strategy"

// Ways returns in which ways a pod that asks for asks would use GPUs of the node. False is that
// the node does not offer what it asks for.
func (o *Offer) Ways(asks []sharing.Ask) (ways sharing.Ways, ok bool) {
	for _, a := range asks {
		w := o.m.ways(a)
		if w == 0 {
			return 0, false
		}
		ways |= w
	}
	return ways, true
}

// ways is Ways of one ask; 0 is that the node does not offer it.
func (m *machine) ways(a sharing.Ask) sharing.Ways {
	_, _, share := a.ShareOf()
	undivided, divided := m.divided()
	switch {
	case share && undivided:
		return sharing.WayMemory
	case share || m.capacity(a.Resource) == 0:
		return 0
	}
	name := strings.TrimSuffix(a.Resource, ".shared")
	shared := name != a.Resource
	switch {
	case strings.HasPrefix(name, api.ResourceMIGPrefix):
		return sharing.WayMIG | m.sharedBy(name, shared || m.number(name+".replicas") > 1)
	case m.single:
		return sharing.WayMIG | m.sharedBy(name, shared || m.replicas > 1)
	case shared || divided && m.capacity(api.ResourceGPUShared) == 0:
		return m.sharedBy(name, true)
	}
	return sharing.WayWhole
}

// divided reports whether some of the node's GPUs are not divided, and whether some are divided
// into shares.
func (m *machine) divided() (undivided, divided bool) {
	for i := range m.gpus {
		if m.gpus[i].ComputeSlices == 0 {
			undivided, divided = undivided || m.gpus[i].Shares <= 1, divided || m.gpus[i].Shares > 1
		}
	}
	return undivided, divided
}

// sharedBy is the way in which devices of a resource are shared, if they are.
func (m *machine) sharedBy(resource string, shared bool) sharing.Ways {
	switch {
	case !shared:
		return 0
	case m.label(resource+sharingSuffix) == string(gpu.SharingMPS):
		return sharing.WayMPS
	}
	return sharing.WayTimeSlicing
}
