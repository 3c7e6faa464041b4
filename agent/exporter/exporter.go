// Package exporter writes GPU readings in the text format that NVIDIA's
// dcgm-exporter serves: same metric names, types and labels, so that dashboards
// and rules made for it work unchanged. It serves no HTTP and reads no GPU.
package exporter

import "berth.dev/berth/core/gpu"

// Device is one GPU or MIG device to write.
type Device struct {
	GPU     gpu.GPU
	MIG     *gpu.MIGDevice // nil is the whole GPU
	Reading gpu.Reading    // of the MIG device where there is one
	Pods    []Pod          // who holds it; several if it is shared, none if it is free
}

// Pod is one holder of a device.
type Pod struct {
	Namespace, Name, Container string
	UID                        string // "" leaves out the pod_uid label
}

// Options is what all series of one scrape have in common.
type Options struct {
	Hostname      string // the node's name
	DriverVersion string // such as "570.124.06"
}
