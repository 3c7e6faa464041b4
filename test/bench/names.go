package main

// What users write and read, spelled as they spell it: these are the contract
// that the programs are measured by.
const (
	annotationDevices  = "berth.dev/devices"
	annotationGang     = "berth.dev/gang"
	annotationMinCount = "berth.dev/gang-min-count"
	annotationFraction = "gpu-fraction"
	annotationStopped  = "kubeflow-resource-stopped"
	labelProduct       = "nvidia.com/gpu.product"
)
