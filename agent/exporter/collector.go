package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"berth.dev/berth/agent/nvml"
)

// Sources are where a Collector learns what it writes. Snapshot and Samples are
// needed; all must be safe for concurrent use.
type Sources struct {
	Snapshot func() nvml.Snapshot // the newest that is known; it is not changed
	Samples  func(context.Context) ([]nvml.Sample, error)
	// Ask says which measures Samples is to have from then on, in Sample.More. nil is
	// none, and fields that need one have no series.
	Ask func([]nvml.Measure)
	// Holders is the agent's own table. nil is none, as when it only observes.
	Holders func() []Holder
	// Kubelet tells of the containers that are not in the table; see Kubelet. nil
	// knows none.
	Kubelet func(context.Context, nvml.Snapshot) ([]Holder, error)
	// PodUIDs gives, for one scrape, the UIDs of pods that the kubelet has named, as in
	// their cgroups; "" is unknown. It is asked only if the kubelet tells of a pod
	// that is not in the table. nil knows none: then the processes of pods that only
	// the kubelet reports are no pod's.
	PodUIDs func() func(namespace, name string) string
	// PodLabels gives, for one scrape, the labels of pods by UID; nil of one that is
	// not known. It is asked only with CollectorOptions.PodLabels.
	PodLabels func() func(podUID string) map[string]string
	// Container returns the name of a container of a pod by its ID; "" is unknown.
	// nil knows none: then what runs in a pod is its first container's.
	Container func(podUID, id string) string
	Healthy   func(uuid string) bool // of GPUs and MIG devices; nil is always
	Counters  func() Counters        // nil is none
	// Bare says that the node has no GPU at all, so a driver which does not
	// answer is no error. nil is never.
	Bare func() bool
}

// CollectorOptions say how a Collector writes.
type CollectorOptions struct {
	Options                 // DriverVersion is the snapshot's
	Proc      string        // the host's /proc; "" is /proc
	PodLabels PodLabels     // which labels of pods series carry
	MinAge    time.Duration // a scrape that is younger is given again; 0 is 1 s
	Patience  time.Duration // for the driver and the kubelet, each; 0 is 4 s
	Log       *slog.Logger  // nil is none
}

// Collector makes scrapes of a node's devices. It reads the driver when it is
// asked and not between: the readings of a scrape are of its own moment, those
// that are means are of the time since the one before, and a node that no client
// scrapes costs nothing. It is safe for concurrent use; scrapes wait for one
// another.
type Collector struct {
	Xids Xids // tell it of every Xid

	s     Sources
	o     CollectorOptions
	asked atomic.Pointer[asked]

	turn   chan struct{} // holds a value while no scrape is under way; guards the rest
	last   *page         // of the last scrape; nil is none
	sets   arena         // of its label sets
	at     time.Time
	logged string // what was last logged of the kubelet
}

// asked is what a file of fields asks for.
type asked struct {
	fields Fields
	faults []Fault
}

// SetFields changes what is written from the next reading on. faults are counted in
// berth_metrics_file_lines_left_out.
func (c *Collector) SetFields(f Fields, faults []Fault) { c.asked.Store(&asked{f, faults}) }

// samples reads the driver, with what the fields need beyond a Reading.
func (c *Collector) samples(ctx context.Context, f *Fields) ([]nvml.Sample, error) {
	if c.s.Ask != nil {
		c.s.Ask(f.Measures())
	}
	return c.s.Samples(ctx)
}

// NewCollector makes a Collector.
func NewCollector(s Sources, o CollectorOptions) *Collector {
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.MinAge == 0 {
		o.MinAge = time.Second
	}
	if o.Patience == 0 {
		o.Patience = 4 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if s.Healthy == nil {
		s.Healthy = func(string) bool { return true }
	}
	c := &Collector{s: s, o: o, turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	c.SetFields(o.Fields, nil)
	return c
}

// page is the text of a scrape. Its memory is used again once no client reads it: it is
// half of all that a scrape takes, and the next one is as long.
type page struct {
	text    []byte
	readers atomic.Int32
}

// Scrape is Page for a reader that keeps the text.
func (c *Collector) Scrape(ctx context.Context) ([]byte, error) {
	text, _, err := c.Page(ctx)
	return text, err
}

// Page returns one scrape; the bytes are not to be changed, nor to be read after done.
// Of a driver that does not answer there is an error only while no GPU has ever been
// seen: else the scrape says so in berth_nvml_up and has no readings. A node without
// GPUs has Berth's own counters alone.
func (c *Collector) Page(ctx context.Context) (text []byte, done func(), err error) {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("wait for the scrape before: %w", ctx.Err())
	}
	defer func() { c.turn <- struct{}{} }()
	now := time.Now()
	if c.last == nil || now.Sub(c.at) >= c.o.MinAge {
		var b []byte
		if c.last != nil && c.last.readers.Load() == 0 {
			b = c.last.text[:0]
		} else if c.last != nil {
			b = make([]byte, 0, len(c.last.text)+4096)
		}
		if b, err = c.scrape(ctx, now, b); err != nil {
			c.last = nil // its memory may be written over
			return nil, nil, err
		}
		c.last, c.at = &page{text: b}, now
	}
	p := c.last
	p.readers.Add(1)
	return p.text, func() { p.readers.Add(-1) }, nil
}

// scrape appends a scrape to b, which is empty.
func (c *Collector) scrape(ctx context.Context, now time.Time, b []byte) ([]byte, error) {
	short, cancel := context.WithTimeout(ctx, c.o.Patience)
	asked := c.asked.Load()
	samples, err := c.samples(short, &asked.fields)
	cancel()
	s := c.s.Snapshot()
	bare := err != nil && len(s.GPUs) == 0 && c.s.Bare != nil && c.s.Bare()
	if err != nil && len(s.GPUs) == 0 && !bare {
		if s.Failed != "" {
			err = errors.New(s.Failed)
		}
		return nil, fmt.Errorf("read the GPUs: %w", err)
	}
	if err != nil && !bare {
		c.o.Log.Warn("the driver gave no readings", "error", err)
	}
	devs := devices(s, samples, c.pods(ctx, &s), c.o.Divide)
	for i := range devs {
		if d := &devs[i]; c.o.Divide && d.shared() {
			c.processes(d, sampleOf(samples, deviceUUID(d)))
		}
	}
	o := c.o.Options
	o.Fields, o.DriverVersion = asked.fields, s.Driver
	c.sets.b = c.sets.b[:0] // nothing of the last scrape is used any more but its text
	b = appendFields(b, &o, devs, &c.sets)
	b = appendOwn(b, &o, devs, c.s.Healthy)
	b = appendXids(b, &o, devs, &c.Xids, now)
	var counters Counters
	if c.s.Counters != nil {
		counters = c.s.Counters()
	}
	if !bare {
		b = appendUp(b, err == nil)
	}
	return appendFaults(appendCounters(b, counters), asked.faults), nil
}

// devices puts snapshot and samples together, in order of GPU and placement. With
// both, a GPU that is partitioned stands before its MIG devices; otherwise it is left out
// unless a pod holds it whole.
func devices(s nvml.Snapshot, samples []nvml.Sample, pods map[string][]Pod, both bool) []Device {
	out := make([]Device, 0, len(samples)+len(s.GPUs))
	add := func(g *nvml.GPU, m *migDevice, uuid string) {
		d := Device{GPU: g.GPU, MIG: m, ComputeSlices: g.ComputeSlices, Pods: pods[uuid], Unread: true}
		if x := sampleOf(samples, uuid); x != nil {
			d.Reading, d.Absent, d.More, d.Unread = x.Reading, x.Absent, x.More, false
		}
		out = append(out, d)
	}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		if both || len(g.MIG) == 0 || len(pods[g.UUID]) > 0 {
			add(g, nil, g.UUID)
		}
		for i := range g.MIG {
			add(g, &g.MIG[i], g.MIG[i].UUID)
		}
	}
	return out
}

func deviceUUID(d *Device) string {
	if d.MIG != nil {
		return d.MIG.UUID
	}
	return d.GPU.UUID
}

func sampleOf(samples []nvml.Sample, uuid string) *nvml.Sample {
	for i := range samples {
		if samples[i].UUID == uuid {
			return &samples[i]
		}
	}
	return nil
}

// pods asks who holds which device. Without the kubelet's answer, those that only
// it knows are missing; that is logged when it begins and when it ends.
func (c *Collector) pods(ctx context.Context, s *nvml.Snapshot) map[string][]Pod {
	var own, others []Holder
	if c.s.Holders != nil {
		own = c.s.Holders()
	}
	if c.s.Kubelet != nil {
		ctx, cancel := context.WithTimeout(ctx, c.o.Patience)
		defer cancel()
		list, err := c.s.Kubelet(ctx, *s)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if said != c.logged {
			if c.logged = said; err != nil {
				c.o.Log.Warn("the metrics lack pods that Berth did not place", "error", err)
			} else {
				c.o.Log.Info("the kubelet reports pods again")
			}
		}
		others = list
	}
	others = beside(own, others)
	if len(others) > 0 && c.s.PodUIDs != nil {
		uid := c.s.PodUIDs()
		for i := range others {
			if h := &others[i]; h.PodUID == "" {
				h.PodUID = uid(h.Namespace, h.Pod)
			}
		}
	}
	by := podsOf(own, others)
	c.labeled(by)
	return by
}

// processes finds out what the processes of a shared device are of its pods.
func (c *Collector) processes(d *Device, x *nvml.Sample) {
	if x == nil {
		return
	}
	known := len(x.Processes) == 0
	for _, p := range x.Processes {
		owner, ok := ProcessOwner(c.o.Proc, p.PID)
		if !ok {
			continue
		}
		known = true
		if at := c.podOf(d.Pods, owner); at >= 0 {
			d.Pods[at].Running = true
			d.Pods[at].MemoryBytes += max(0, p.MemoryBytes)
		}
	}
	for i := range d.Pods {
		d.Pods[i].Known = known
	}
}

// podOf finds the holder that a process is of, -1 if it is of none: by its
// container where that is known, else the first of its pod.
func (c *Collector) podOf(pods []Pod, owner Owner) int {
	if owner.PodUID == "" {
		return -1
	}
	first := slices.IndexFunc(pods, func(p Pod) bool { return strings.EqualFold(p.UID, owner.PodUID) })
	if first < 0 || c.s.Container == nil || owner.ContainerID == "" {
		return first
	}
	name := c.s.Container(owner.PodUID, owner.ContainerID)
	exact := slices.IndexFunc(pods, func(p Pod) bool { return p.UID == pods[first].UID && p.Container == name })
	return max(first, exact)
}
