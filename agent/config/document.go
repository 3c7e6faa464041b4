// Package config reads NVIDIA's device plugin configuration (Parse) and mig-parted's
// (ParseMIG) strictly. It applies nothing, and it does not read flags or the
// environment.
package config

import "go.yaml.in/yaml/v3"

// document is NVIDIA's device plugin configuration, version v1: every field
// that the plugin or GPU Feature Discovery reads.
//
// Source: NVIDIA/k8s-device-plugin v0.20, api/config/v1.
type document struct {
	Version   string    `json:"version"`
	Flags     flags     `json:"flags"`
	Resources resources `json:"resources"`
	Sharing   struct {
		TimeSlicing *strategy `json:"timeSlicing"`
		MPS         *strategy `json:"mps"`
	} `json:"sharing"`
	Imex struct {
		ChannelIDs []int `json:"channelIDs"`
		Required   bool  `json:"required"`
	} `json:"imex"`

	beside beside // what has no field in the file
}

// beside is what only flags and environment variables set.
type beside struct {
	KubeletSocket                    string
	CDIFeatureFlags, CDIDisableHooks []string
	Health                           Health
}

type flags struct {
	MIGStrategy             string  `json:"migStrategy"`
	FailOnInitError         bool    `json:"failOnInitError"`
	MPSRoot                 *string `json:"mpsRoot"`
	DriverRoot              string  `json:"nvidiaDriverRoot"`
	DevRoot                 string  `json:"nvidiaDevRoot"`
	GDRCopy                 bool    `json:"gdrcopyEnabled"`
	GDS                     bool    `json:"gdsEnabled"`
	MOFED                   bool    `json:"mofedEnabled"`
	UseNodeFeatureAPI       bool    `json:"useNodeFeatureAPI"`
	DeviceDiscoveryStrategy string  `json:"deviceDiscoveryStrategy"`
	Plugin                  struct {
		PassDeviceSpecs     bool      `json:"passDeviceSpecs"`
		DeviceListStrategy  yaml.Node `json:"deviceListStrategy"` // text or a list
		DeviceIDStrategy    string    `json:"deviceIDStrategy"`
		CDIAnnotationPrefix string    `json:"cdiAnnotationPrefix"`
		CTKPath             string    `json:"nvidiaCTKPath"`
		ContainerDriverRoot string    `json:"containerDriverRoot"`
		AllocationPolicy    string    `json:"sharedDevicesAllocationPolicy"`
	} `json:"plugin"`
	GFD struct {
		Oneshot         bool      `json:"oneshot"`
		NoTimestamp     bool      `json:"noTimestamp"`
		SleepInterval   yaml.Node `json:"sleepInterval"` // "60s", "infinite" or nanoseconds
		OutputFile      string    `json:"outputFile"`
		MachineTypeFile string    `json:"machineTypeFile"`
	} `json:"gfd"`
}

type resources struct {
	GPUs []pattern `json:"gpus"`
	MIG  []pattern `json:"mig"`
}

type pattern struct {
	Pattern string `json:"pattern"`
	Name    string `json:"name"`
}

type strategy struct {
	RenameByDefault            bool     `json:"renameByDefault"`
	FailRequestsGreaterThanOne *bool    `json:"failRequestsGreaterThanOne"`
	Resources                  []shared `json:"resources"`
}

type shared struct {
	Name     string    `json:"name"`
	Replicas *int      `json:"replicas"`
	Rename   string    `json:"rename"`
	Devices  yaml.Node `json:"devices"` // "all", a count, or a list
}
