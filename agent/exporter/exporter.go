// Package exporter tells of GPUs in the text format that NVIDIA's dcgm-exporter
// serves: same metric names, types and labels, so that dashboards and rules made
// for it work unchanged; and of who holds them, which is Berth's own. It serves
// them over HTTP, and finds out which pod a device or a process is of. It calls no
// driver and decides neither health nor who gets a GPU.
package exporter

import "berth.dev/berth/core/gpu"

// Device is one GPU or MIG device to write.
type Device struct {
	GPU     gpu.GPU
	MIG     *gpu.MIGDevice // nil is the whole GPU
	Reading gpu.Reading    // of the MIG device where there is one
	// Absent names fields of Reading that the driver does not give: they have no
	// series.
	Absent []string
	// More is what Fields.Measures asks for, in its order.
	More          []float64
	ComputeSlices int // of the whole GPU, for MIG; 0 is unknown
	// Unread is a device without any reading, as one that is lost.
	Unread bool
	Pods   []Pod // who holds it; several if it is shared, none if it is free
}

// Pod is one holder of a device.
type Pod struct {
	Namespace, Name, Container string
	UID                        string // "" leaves out the pod_uid label

	labels []label // of the pod, as CollectorOptions.PodLabels asks

	// What follows counts only with Options.Divide.

	Share     bool  // it holds a share, not the whole device
	Committed bool  // Berth's scheduler has committed the device to it
	MilliGPU  int64 // of the GPU, 1000 is all of it; 0 is unknown
	// Known says that the processes of the device are known with their pods; then
	// Running and MemoryBytes are right.
	Known       bool
	Running     bool // it has a process on the device
	MemoryBytes int64
}

// Options is what all series of one scrape have in common.
type Options struct {
	Hostname      string // the node's name
	DriverVersion string // such as "570.124.06"
	// HostnameLabel is the label of Hostname; "" is "hostname". Older versions of
	// dcgm-exporter write "Hostname": dashboards may want that.
	HostnameLabel string
	// OldLabels writes pod_name, pod_namespace, container_name and uuid, as
	// dcgm-exporter's --use-old-namespace: Prometheus has no labels of its own by
	// the first three names, so it does not rename them to exported_pod.
	OldLabels bool
	// Divide lets the series of a GPU add up to what the GPU shows, and gives those
	// of no pod empty pod labels. False writes
	// every value of a device for each that shares it, and every value of a GPU
	// for each MIG device, as dcgm-exporter does with KUBERNETES_VIRTUAL_GPUS: a
	// sum counts them more than once.
	Divide bool
	Fields Fields // what to write; zero is the default set
}
