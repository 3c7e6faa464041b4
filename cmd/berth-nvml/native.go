//go:build cgo

package main

import (
	"os"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/cmd/berth-nvml/real"
)

func native(r roots) (nvml.Library, error) {
	return real.New(real.Options{
		DriverRoot: r.driver, HostDriverRoot: r.hostDriver, DevRoot: r.dev, HostDevRoot: r.hostDev,
		Hook: r.hook, Log: os.Stderr,
	}), nil
}
