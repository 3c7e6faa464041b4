package health

import (
	"maps"
	"slices"
	"time"
)

// Verdict reports whether a GPU or MIG device may be given to containers. Of one
// that may not, xid is why, 0 where it was no Xid, and why is a sentence that
// does not change while the cause stays the same. A GPU of which only some MIG
// devices are unhealthy is healthy itself. A device that no inventory has named
// is not healthy.
func (s *State) Verdict(uuid string) (healthy bool, xid int, why string) {
	d, ok := s.gpus[uuid]
	if ok {
		return d.verdict(uuid)
	}
	if parent, _, ok := s.parent(uuid); ok {
		return s.gpus[parent].verdict(uuid)
	}
	return false, 0, "the driver has no device " + uuid
}

func (d *device) verdict(uuid string) (healthy bool, xid int, why string) {
	m := d.whole
	if p := d.parts[uuid]; m == nil {
		m = p
	}
	if m == nil {
		return true, 0, ""
	}
	return false, m.xid, m.why
}

// Healthy is the verdict on every GPU and MIG device, by UUID.
func (s *State) Healthy() map[string]bool {
	out := map[string]bool{}
	for uuid, text := range s.verdicts() {
		out[uuid] = text == ""
	}
	return out
}

// Since is from when on a GPU or MIG device is unhealthy: its last event. It is
// zero for a healthy one.
func (s *State) Since(uuid string) time.Time {
	parent := uuid
	if p, _, ok := s.parent(uuid); ok {
		parent = p
	}
	d := s.gpus[parent]
	switch {
	case d == nil:
		return time.Time{}
	case d.whole != nil:
		return d.whole.since
	case d.parts[uuid] != nil:
		return d.parts[uuid].since
	}
	return time.Time{}
}

// LastXid is the last Xid of a GPU, of any class, since the State was made; 0 is
// none. It stays when the GPU comes back.
func (s *State) LastXid(uuid string) int {
	if d := s.gpus[uuid]; d != nil {
		return d.lastXid
	}
	return 0
}

// verdicts tells of every GPU and MIG device why it is unhealthy, "" if it is not.
func (s *State) verdicts() map[string]string {
	out := map[string]string{}
	for uuid, d := range s.gpus {
		maps.Copy(out, d.verdicts(uuid))
	}
	return out
}

func (d *device) verdicts(uuid string) map[string]string {
	_, _, why := d.verdict(uuid)
	out := map[string]string{uuid: why}
	for _, m := range d.mig {
		_, _, out[m.UUID] = d.verdict(m.UUID)
	}
	return out
}

// changed lists what turned healthy, turned unhealthy, or is new, sorted.
func changed(before, after map[string]string) []string {
	var out []string
	for uuid, why := range after {
		if old, ok := before[uuid]; !ok || (old == "") != (why == "") {
			out = append(out, uuid)
		}
	}
	slices.Sort(out)
	return out
}
