//go:build cgo

package real

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"berth.dev/berth/agent/nvml"
)

// eventSet waits for the events of the GPUs that were registered.
type eventSet struct {
	l *Library
	s gonvml.EventSet
}

// NewEventSet makes an empty set.
func (l *Library) NewEventSet() (nvml.EventSet, error) {
	for _, symbol := range []string{"nvmlDeviceRegisterEvents", "nvmlEventSetFree"} {
		if err := l.need(symbol); err != nil {
			return nil, err
		}
	}
	if err := l.need("nvmlEventSetWait_v2", "nvmlEventSetWait"); err != nil {
		return nil, err
	}
	s, err := call(l, l.api.EventSetCreate, "nvmlEventSetCreate")
	if err != nil {
		return nil, err
	}
	return &eventSet{l, s}, nil
}

// Register asks for events of a GPU, which has to be of this library.
func (e *eventSet) Register(d nvml.Device, events uint64) error {
	gpu, ok := d.(*device)
	if !ok {
		return nvml.InvalidArgument
	}
	return check(gpu.h.RegisterEvents(events, e.s))
}

// Wait blocks its thread up to the timeout, which NVML takes in milliseconds.
func (e *eventSet) Wait(timeout time.Duration) (nvml.EventData, error) {
	data, ret := e.s.Wait(uint32(timeout.Milliseconds()))
	if err := check(ret); err != nil {
		return nvml.EventData{}, err
	}
	out := nvml.EventData{
		UUID: e.l.uuidOf(data.Device), Type: data.EventType, Data: data.EventData,
		GI: int(int32(data.GpuInstanceId)), CI: int(int32(data.ComputeInstanceId)), // all ones is the whole GPU
	}
	return out, nil
}

// uuidOf names the GPU of an event, from memory where it does not answer any
// more; "" is one that never said.
func (l *Library) uuidOf(h gonvml.Device) string {
	l.mu.RLock()
	uuid, known := l.uuids[h]
	l.mu.RUnlock()
	if known {
		return uuid
	}
	uuid, _ = (&device{l: l, h: h}).UUID()
	return uuid
}

func (e *eventSet) Close() error { return check(e.s.Free()) }
