package agent

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// bare reports whether this machine has no NVIDIA GPU: then a driver that cannot be read
// is no fault, and the agent of a DaemonSet that runs on every node just waits.
func (a *agent) bare() bool {
	return a.o.FakeFile == "" && noGPU(os.DirFS("/sys"))
}

// noGPU reports whether no device of the PCI bus is a display controller of NVIDIA's.
// sys is /sys. A machine without that bus has none.
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

// unwell is why the agent is not well: the driver of GPUs that are there cannot be
// read. Of a driver that has never been read, bare says whether there are any.
func unwell(s Status, bare func() bool) error {
	if s.Unread == "" || len(s.Snapshot.GPUs) == 0 && bare() {
		return nil
	}
	return errors.New(s.Unread)
}
