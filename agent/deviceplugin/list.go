package deviceplugin

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// list is the device list of a resource, read by its streams.
type list struct {
	mu      sync.Mutex
	devices []Device // by ID, no ID twice
	muted   bool     // changes are not reported
	changed chan struct{}
}

func newList() *list { return &list{changed: make(chan struct{})} }

// set replaces the devices and tells the streams, unless the list is the same
// or muted. It keeps devices.
func (l *list) set(devices []Device) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Equal(devices, l.devices) {
		return
	}
	l.devices = devices
	if !l.muted {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// mute stops or resumes the telling. Streams that begin later get the list
// either way.
func (l *list) mute(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.muted && !on {
		close(l.changed)
		l.changed = make(chan struct{})
	}
	l.muted = on
}

// get returns the devices and a channel that is closed when there are others.
func (l *list) get() (devices []Device, changed <-chan struct{}, muted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.devices, l.changed, l.muted
}

// healthy reports whether any device of the list is.
func (l *list) healthy() bool {
	devices, _, _ := l.get()
	return slices.ContainsFunc(devices, func(d Device) bool { return d.Healthy })
}

// inOrder returns the devices by ID, each ID once: the kubelet keeps a set.
func inOrder(devices []Device) []Device {
	out := slices.Clone(devices)
	slices.SortStableFunc(out, func(a, b Device) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b Device) bool { return a.ID == b.ID })
}

// response puts a list into the protocol's form.
func response(devices []Device) *v1beta1.ListAndWatchResponse {
	out := make([]*v1beta1.Device, len(devices))
	for i, d := range devices {
		out[i] = &v1beta1.Device{ID: d.ID, Health: v1beta1.Unhealthy}
		if d.Healthy {
			out[i].Health = v1beta1.Healthy
		}
		if d.NUMANode >= 0 {
			out[i].Topology = &v1beta1.TopologyInfo{Nodes: []*v1beta1.NUMANode{{ID: int64(d.NUMANode)}}}
		}
	}
	return &v1beta1.ListAndWatchResponse{Devices: out}
}
