//go:build !cgo

package main

import (
	"errors"

	"berth.dev/berth/agent/nvml"
)

func native(roots) (nvml.Library, error) {
	return nil, errors.New("this berth-nvml was built without cgo and cannot load NVIDIA's driver; install the release, or give --fake FILE")
}
