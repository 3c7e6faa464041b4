package agent

import (
	"maps"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/nvml"
)

// Status is what the reconciler knows at one moment. It is a value and never changes.
type Status struct {
	Snapshot nvml.Snapshot // the last one that has GPUs, or none yet
	Unread   string        // why the driver cannot be read now; "" is that it can
	Settings config.Settings
	InForce  bool            // Settings are; without, nothing is offered
	Healthy  map[string]bool // by UUID of GPUs and MIG devices; false for those that are drained, too
	Drained  map[string]bool // those of them that are well; for pods that have them already
	Xid      map[string]int  // by UUID of GPUs, of an unhealthy one the Xid that made it so, of a healthy one the last; 0 is none
}

// notRead is Status.Unread at first.
const notRead = "the driver has not been read yet"

// status is what is known now.
func (k *reconciler) status() Status {
	s := Status{
		Snapshot: k.snapshot, Unread: k.unread, Settings: k.choice.Settings, InForce: k.choice.InForce,
		Healthy: k.health.Healthy(), Drained: map[string]bool{}, Xid: map[string]int{},
	}
	k.mu.Lock()
	drained := maps.Clone(k.drained)
	k.mu.Unlock()
	out := maps.Clone(drained)
	for uuid, why := range k.faulty() {
		if why != "" {
			out[uuid] = true
		}
	}
	for _, g := range k.snapshot.GPUs {
		healthy, xid, _ := k.health.Verdict(g.UUID)
		if healthy && !out[g.UUID] {
			xid = k.health.LastXid(g.UUID)
		}
		s.Xid[g.UUID] = xid
		if !out[g.UUID] {
			continue
		}
		uuids := []string{g.UUID}
		for _, d := range g.MIG {
			uuids = append(uuids, d.UUID)
		}
		for _, uuid := range uuids {
			s.Drained[uuid] = drained[g.UUID] && s.Healthy[uuid]
			s.Healthy[uuid] = false
		}
	}
	return s
}
