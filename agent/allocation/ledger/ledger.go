package ledger

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// Ledger knows the devices of one node and which pod holds which. It is not safe
// for concurrent use: allocation.Node guards it by its mutex.
type Ledger struct {
	ownIDs bool // the kubelet sees devices under their own IDs, not under placeholder IDs
	log    *slog.Logger

	settings     config.Settings
	gpus         []gpu.GPU       // with their health
	devices      *sharing.Ledger // who holds what; nil until SetGPUs
	placeholders sharing.Placeholders
	records      map[string]*Record // by pod UID; a record in it is replaced, not changed, except by rename and SetLimited
	displaced    map[string]bool    // pods, by UID, with a device that the node does not offer as it was allocated
	ended        map[string]bool    // pods that have ended and that the kubelet may still list, by UID

	draining    map[string]bool // see SetDraining, by UUID
	mayDrain    map[string]bool // see AllowOnDraining, by pod UID
	differences int64
}

// New returns a ledger without GPUs; see SetGPUs. With ownIDs, the kubelet sees
// devices under their own IDs instead of placeholder IDs.
func New(ownIDs bool, log *slog.Logger) *Ledger {
	return &Ledger{ownIDs: ownIDs, log: log, records: map[string]*Record{}, displaced: map[string]bool{}, ended: map[string]bool{}}
}

// Load adds a record that was read from a CDI spec. Of several records of one pod,
// the newest is loaded last.
func (l *Ledger) Load(r *Record) {
	if older := l.records[r.PodUID]; older != nil {
		r.merge(older)
	}
	l.records[r.PodUID] = r
}

// SetGPUs replaces the GPUs, with their health, and how they are offered. The
// caller calls Recount next. An error says why the node cannot offer them in this
// way, as sharing.Check does, and nothing has changed then.
func (l *Ledger) SetGPUs(gpus []gpu.GPU, settings config.Settings) error {
	devices, err := sharing.NewLedger(gpus, settings.Sharing)
	if err != nil {
		return fmt.Errorf("offer the node's GPUs: %w", err)
	}
	l.gpus, l.settings, l.devices = gpus, settings, devices
	if err := l.placeholders.Reset(gpus, settings.Sharing); err != nil {
		return fmt.Errorf("number the node's GPUs: %w", err) // NewLedger has checked the same
	}
	return nil
}

// Ready reports whether the GPUs are known.
func (l *Ledger) Ready() bool { return l.devices != nil }

// Nonces returns the nonces of all records: every other CDI spec is outdated.
func (l *Ledger) Nonces() map[string]bool {
	out := map[string]bool{}
	for _, r := range l.records {
		for i := range r.Containers {
			for _, e := range r.Containers[i].Entries {
				out[e.Nonce] = true
			}
		}
	}
	return out
}

// Has reports whether a pod has a record.
func (l *Ledger) Has(uid string) bool { return l.records[uid] != nil }

// Record returns the record of a pod, or nil. The caller must not change it.
func (l *Ledger) Record(uid string) *Record { return l.records[uid] }

// UIDs returns the pods with a record, sorted: the order in which they are counted.
func (l *Ledger) UIDs() []string { return slices.Sorted(maps.Keys(l.records)) }

// SetNames sets the names of pods whose devices another plugin allocated: the
// kubelet's checkpoint has only their UIDs. It reports whether one was new.
func (l *Ledger) SetNames(pods []*v1.Pod) (changed bool) {
	for _, pod := range pods {
		if r := l.records[string(pod.UID)]; r != nil && r.Namespace == "" && pod.Name != "" {
			r.Namespace, r.Pod = pod.Namespace, pod.Name
			changed = true
		}
	}
	return changed
}

// Differences returns how many commitments named another device than the
// kubelet's choice stood for.
func (l *Ledger) Differences() int64 { return l.differences }

// Held returns what each pod is counted to hold.
func (l *Ledger) Held() []sharing.Holding { return l.devices.Held() }

// Placeholders returns the placeholder IDs of a resource and what they stand for.
func (l *Ledger) Placeholders(resource string) []sharing.Placeholder {
	return l.placeholders.List(resource)
}

// Holder is one container that holds devices.
type Holder struct {
	PodUID, Namespace, Pod, Container string
	Devices                           []sharing.Device
	Committed                         bool // by the scheduler; false: the kubelet chose
	// Picked has the UUIDs of the devices that the kubelet's choice stood for, as
	// many as it chose. They differ from Devices where the commitment did.
	Picked []string
}

// Holders returns the containers that hold devices, sorted by namespace, pod and
// container.
func (l *Ledger) Holders() []Holder {
	var out []Holder
	for _, r := range l.records {
		for i := range r.Containers {
			c := &r.Containers[i]
			if len(c.Devices) == 0 {
				continue
			}
			h := Holder{PodUID: r.PodUID, Namespace: r.Namespace, Pod: r.Pod, Container: c.Name, Committed: r.Committed, Picked: slices.Clone(c.Picked)}
			for j := range c.Devices {
				h.Devices = append(h.Devices, c.Devices[j].Sharing(l.healthy(&c.Devices[j])))
			}
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container))
	})
	return out
}

// parent returns the UUID of the GPU with an index.
func (l *Ledger) parent(index int) string {
	for i := range l.gpus {
		if l.gpus[i].Index == index {
			return l.gpus[i].UUID
		}
	}
	return ""
}

// healthy reports whether the hardware of a device exists and is healthy, in
// whatever form it is offered.
func (l *Ledger) healthy(d *Device) bool {
	for i := range l.gpus {
		if g := &l.gpus[i]; g.UUID == d.Parent {
			unhealthy := slices.ContainsFunc(g.MIG, func(m gpu.MIGDevice) bool { return m.UUID == d.UUID && m.Unhealthy })
			exists := d.UUID == d.Parent || slices.ContainsFunc(g.MIG, func(m gpu.MIGDevice) bool { return m.UUID == d.UUID })
			return g.Healthy && !unhealthy && exists
		}
	}
	return false
}
