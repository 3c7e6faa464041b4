package health

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"berth.dev/berth/core/gpu"
)

// Event is an Xid of a GPU, or the loss of one.
type Event struct {
	UUID string // of the GPU; "" is a GPU that the driver could not name
	Xid  int    // 0 with Lost
	GI   int    // GPU instance that was hit; -1 is the whole GPU
	Lost bool   // the driver cannot reach the GPU any more
}

// State is what is known of the health of a node's devices. It is not safe for
// concurrent use.
type State struct {
	policy Policy
	gpus   map[string]*device // by UUID
}

// device is one GPU.
type device struct {
	present   bool // in the newest inventory, and not lost
	fresh     bool // not probed since it came
	mig       []gpu.MIGDevice
	whole     *mark            // on the GPU and all that is of it
	parts     map[string]*mark // on single MIG devices, by UUID
	probation probation
	damping   int       // how often the waits are doubled
	well      time.Time // when it last came back
	lastXid   int       // of any class
}

// mark is why a device is unhealthy.
type mark struct {
	xid   int // 0 is none
	class gpu.XidClass
	why   string
	since time.Time // of the last event that made it
}

// New makes a State without devices; see Inventory.
func New(p Policy) *State { return &State{policy: p, gpus: map[string]*device{}} }

// Inventory takes what the driver has found: GPUs with their MIG devices, those
// that it cannot reach with Healthy false. at is when it was asked: an older
// inventory proves nothing. GPUs that were there before and are no more are
// lost. A MIG device that is gone takes its mark with it. It gives the UUIDs of
// GPUs and MIG devices whose verdict changed, sorted.
func (s *State) Inventory(gpus []gpu.GPU, at time.Time) []string {
	before := s.verdicts()
	found := map[string]bool{}
	for _, g := range gpus {
		found[g.UUID] = true
		d := s.gpus[g.UUID]
		if d == nil {
			d = &device{fresh: !s.policy.Off(), probation: probation{next: at}}
			s.gpus[g.UUID] = d
		}
		d.mig = slices.Clone(g.MIG)
		for uuid := range d.parts {
			if !slices.ContainsFunc(g.MIG, func(m gpu.MIGDevice) bool { return m.UUID == uuid }) {
				delete(d.parts, uuid)
			}
		}
		if g.Healthy {
			d.found(at)
		} else {
			s.lose(d, at)
		}
	}
	for uuid, d := range s.gpus {
		if !found[uuid] {
			s.lose(d, at)
		}
	}
	return changed(before, s.verdicts())
}

// found notes that the GPU is there.
func (d *device) found(at time.Time) {
	d.present = true
	if d.marked() && d.probation.class == gpu.XidRestart && !d.probation.seen && (d.whole == nil || at.After(d.whole.since)) {
		d.probation = probation{class: gpu.XidRestart, seen: true, next: at.Add(damped(planOf(gpu.XidRestart).first, d.damping))}
	}
}

// lose notes that the GPU is not there.
func (s *State) lose(d *device, at time.Time) {
	was := d.present || d.whole == nil
	d.present = false
	if !s.policy.Off() && (was || d.probation.class != gpu.XidRestart) {
		d.mark(nil, lostMark, at)
	}
}

// lostMark is read only.
var lostMark = mark{class: gpu.XidRestart, why: "the driver cannot reach the GPU: " + gpu.Xid(79).Action}

// Event takes an event that was seen at a moment, and gives the UUIDs of GPUs and
// MIG devices whose verdict changed, sorted. One with a GPU instance is of that
// instance's MIG devices alone, unless it has none that is known; one without is
// of the GPU and every MIG device and share of it; one without a UUID is of every
// GPU of the node.
func (s *State) Event(e Event, now time.Time) []string {
	uuids := []string{e.UUID}
	if e.UUID == "" {
		uuids = s.sorted()
	}
	marks := !s.policy.Off() && (e.Lost || s.policy.Marks(e.Xid))
	var out []string
	for _, uuid := range uuids {
		gi := e.GI
		if parent, m, ok := s.parent(uuid); ok {
			uuid, gi = parent, m.GI
		}
		d := s.gpus[uuid]
		if d == nil {
			// It came before the inventory that has its GPU.
			d = &device{fresh: !s.policy.Off(), probation: probation{next: now}}
			s.gpus[uuid] = d
		}
		if e.Xid != 0 {
			d.lastXid = e.Xid
		}
		if !marks {
			continue
		}
		before := d.verdicts(uuid)
		m := e.mark()
		if e.Lost {
			d.present = false
		}
		d.mark(d.instance(gi), m, now)
		out = append(out, changed(before, d.verdicts(uuid))...)
	}
	slices.Sort(out)
	return out
}

// mark returns what an event leaves on what it hit.
func (e Event) mark() mark {
	if e.Lost {
		return lostMark
	}
	x := gpu.Xid(e.Xid)
	on := ""
	if e.UUID == "" {
		on = " on a GPU that the driver could not name"
	}
	return mark{xid: e.Xid, class: x.Class, why: fmt.Sprintf("Xid %d%s, %s: %s %s", e.Xid, on, x.Name, x.Meaning, x.Action)}
}

// parent finds the GPU of a MIG device.
func (s *State) parent(uuid string) (string, gpu.MIGDevice, bool) {
	for parent, d := range s.gpus {
		for _, m := range d.mig {
			if m.UUID == uuid {
				return parent, m, true
			}
		}
	}
	return "", gpu.MIGDevice{}, false
}

// instance lists the MIG devices of a GPU instance; none is the whole GPU.
func (d *device) instance(gi int) []string {
	var out []string
	for _, m := range d.mig {
		if gi >= 0 && m.GI == gi {
			out = append(out, m.UUID)
		}
	}
	return out
}

// mark makes MIG devices, or with none the whole GPU, unhealthy. Of several marks
// the first of the gravest class counts, and of these one with an Xid before one without.
func (d *device) mark(parts []string, m mark, now time.Time) {
	if !d.marked() {
		d.damping = min(d.damping+1, mostDamping)
		if d.well.IsZero() || now.Sub(d.well) >= flapWindow {
			d.damping = 0
		}
	}
	d.begin(m.class, now)
	m.since = now
	if len(parts) == 0 {
		d.whole = graver(d.whole, m)
		return
	}
	if d.parts == nil {
		d.parts = map[string]*mark{}
	}
	for _, uuid := range parts {
		d.parts[uuid] = graver(d.parts[uuid], m)
	}
}

func graver(old *mark, m mark) *mark {
	if old != nil && grave(old.class) >= grave(m.class) && (old.xid != 0 || m.xid == 0 || grave(old.class) > grave(m.class)) {
		m.xid, m.class, m.why = old.xid, old.class, old.why
	}
	return &m
}

func (d *device) marked() bool { return d.whole != nil || len(d.parts) > 0 }

func (s *State) sorted() []string { return slices.Sorted(maps.Keys(s.gpus)) }
