package commit

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// committedDevice is one entry of the annotation berth.dev/devices.
type committedDevice struct {
	UUID        string `json:"uuid"`
	MilliGPU    int64  `json:"milliGPU"`
	MemoryBytes int64  `json:"memoryBytes"`
}

// check reports a device that is more than one GPU has.
func (d *committedDevice) check() error {
	if d.MilliGPU < 0 || d.MilliGPU > cluster.Whole || d.MemoryBytes < 0 || d.MemoryBytes > request.MostBytes {
		return fmt.Errorf("device %s has %d milli-GPUs and %d bytes; a GPU has 0 to %d, and 0 to %d bytes", d.UUID, d.MilliGPU, d.MemoryBytes, cluster.Whole, int64(request.MostBytes))
	}
	return nil
}

// Commitment is the value of the annotation berth.dev/devices for parts that
// got devices: one list for each, in the same order.
func Commitment(parts []sharing.Part, devices [][]sharing.Device) (string, error) {
	out := make(map[string][]committedDevice, len(parts))
	for i := range parts {
		for _, d := range devices[i] {
			out[parts[i].Name] = append(out[parts[i].Name], committedDevice{UUID: d.UUID, MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes})
		}
	}
	raw, err := json.Marshal(out)
	return string(raw), err
}

// Committed reads the annotation berth.dev/devices of a pod: the devices of each
// container. It gives nil and no error where the pod has none.
func Committed(pod *v1.Pod) (map[string][]sharing.Named, error) {
	raw, ok := pod.Annotations[api.AnnotationDevices]
	if !ok {
		return nil, nil
	}
	named, err := ParseCommitment(raw)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return named, nil
}

// CommittedTo is Committed for one container; ok is false where the pod has no annotation, or one that cannot be read.
func CommittedTo(pod *v1.Pod, container string) (devices []sharing.Named, ok bool) {
	raw, ok := pod.Annotations[api.AnnotationDevices]
	if !ok {
		return nil, false
	}
	if devices, ok = writtenFor(raw, container); ok {
		return devices, true
	}
	list, err := ParseCommitment(raw)
	return list[container], err == nil
}

// ParseCommitment reads a value of the annotation berth.dev/devices.
func ParseCommitment(raw string) (map[string][]sharing.Named, error) {
	if list, ok := written(raw); ok {
		return list, nil
	}
	var list map[string][]committedDevice
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		return nil, fmt.Errorf("read annotation %s: %w; only Berth's scheduler writes it", api.AnnotationDevices, err)
	}
	out := make(map[string][]sharing.Named, len(list))
	for name, devices := range list {
		for _, d := range devices {
			if err := d.check(); err != nil {
				return nil, fmt.Errorf("annotation %s: container %s: %w; only Berth's scheduler writes it", api.AnnotationDevices, name, err)
			}
			out[name] = append(out[name], sharing.Named{UUID: d.UUID, MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes})
		}
	}
	return out, nil
}
