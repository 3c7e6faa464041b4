package labels

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// Reasons of events about GPUs.
const (
	ReasonXid       = "GPUXid"       // the driver has reported an error
	ReasonLost      = "GPULost"      // the driver cannot reach the GPU
	ReasonRecovered = "GPURecovered" // it is healthy again
)

// XidEvent words what the driver reports: which GPU or MIG device, what it means,
// what to do. It is a warning unless the GPU stays healthy.
func XidEvent(s nvml.Snapshot, e nvml.Event) (kind, reason, message string) {
	on := deviceName(s, e.UUID)
	if e.GI >= 0 && e.UUID != "" {
		on += fmt.Sprintf(", GPU instance %d", e.GI)
	}
	if e.Lost {
		return v1.EventTypeWarning, ReasonLost, fmt.Sprintf("%s: the driver can no longer reach it. %s", on, gpu.Xid(79).Action)
	}
	x := gpu.Xid(e.Xid)
	kind = v1.EventTypeWarning
	if x.Healthy {
		kind = v1.EventTypeNormal
	}
	return kind, ReasonXid, fmt.Sprintf("%s: Xid %d, %s: %s %s", on, e.Xid, x.Name, x.Meaning, x.Action)
}

// RecoveredEvent words that a device is healthy again.
func RecoveredEvent(s nvml.Snapshot, uuid string) (kind, reason, message string) {
	return v1.EventTypeNormal, ReasonRecovered, deviceName(s, uuid) + " passed its health checks and can be allocated again."
}

// deviceName is "GPU 3 (GPU-...)", or what is known of it.
func deviceName(s nvml.Snapshot, uuid string) string {
	g, m, ok := s.Find(uuid)
	switch {
	case uuid == "":
		return "A GPU that the driver could not name"
	case !ok:
		return "GPU " + uuid
	case m != nil:
		return fmt.Sprintf("MIG device %s (%s) of GPU %d", m.Profile, m.UUID, g.Index)
	}
	return fmt.Sprintf("GPU %d (%s)", g.Index, g.UUID)
}
