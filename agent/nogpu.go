package agent

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// withoutGPU reports whether this machine has no NVIDIA GPU: then a driver that cannot be read
// is not an error, and the agent of a DaemonSet that runs on every node waits.
func (a *agent) withoutGPU() bool {
	return a.o.FakeFile == "" && noGPU(os.DirFS("/sys"))
}

// noGPU reports whether no device of the PCI bus is a display controller of NVIDIA's.
// sys is /sys. A machine without that bus has no GPU.
//
// Source: PCI Code and ID Assignment Specification, base class 03; NVIDIA is 0x10de.
func noGPU(sys fs.FS) bool {
	const devices = "bus/pci/devices"
	list, err := fs.ReadDir(sys, devices)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	read := func(device, file string) string {
		text, _ := fs.ReadFile(sys, devices+"/"+device+"/"+file) // it may be gone by now
		return strings.TrimSpace(string(text))
	}
	for _, d := range list {
		if read(d.Name(), "vendor") == "0x10de" && strings.HasPrefix(read(d.Name(), "class"), "0x03") {
			return false
		}
	}
	return true
}

// unhealthy returns why the agent is not healthy, or nil: the machine has GPUs, and
// their driver cannot be read. If the driver has never been read, bare reports whether
// there is no GPU.
func unhealthy(s Status, bare func() bool) error {
	if s.Unread == "" || len(s.Snapshot.GPUs) == 0 && bare() {
		return nil
	}
	return errors.New(s.Unread)
}
