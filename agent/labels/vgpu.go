package labels

import (
	"io/fs"
	"path"
	"strings"
)

// VGPU is what a virtual GPU tells its guest of the host.
type VGPU struct {
	Present                bool
	HostDriver, HostBranch string // such as "535.161.05" and "r538_10"
}

// ReadVGPU looks through the PCI devices of a sysfs (os.DirFS("/sys")) for one of
// NVIDIA's that is virtual.
//
// Source: the vendor-specific PCI capability that GPU Feature Discovery reads:
// the letters VF at its fourth byte, then records of a type, a length and data, of
// which type 0 has the host driver's version and branch, ten bytes each.
func ReadVGPU(sys fs.FS) VGPU {
	const devices = "bus/pci/devices"
	entries, err := fs.ReadDir(sys, devices)
	if err != nil {
		return VGPU{}
	}
	for _, e := range entries {
		dir := path.Join(devices, e.Name())
		vendor, err := fs.ReadFile(sys, path.Join(dir, "vendor"))
		if err != nil || strings.TrimSpace(string(vendor)) != "0x10de" {
			continue
		}
		config, err := fs.ReadFile(sys, path.Join(dir, "config"))
		if err != nil {
			continue
		}
		if v, ok := parseVGPU(vendorCapability(config)); ok {
			return v
		}
	}
	return VGPU{}
}

// vendorCapability finds the vendor-specific capability in a PCI configuration
// space; nil is none. It takes only as many steps as there is room for.
func vendorCapability(config []byte) []byte {
	const status, pointer, vendorSpecific = 0x06, 0x34, 0x09
	if len(config) < 256 || config[status]&0x10 == 0 {
		return nil
	}
	at := int(config[pointer]) &^ 3
	for range 64 {
		if at < 0x40 || at+3 > len(config) {
			return nil
		}
		if config[at] == vendorSpecific {
			return config[at:min(at+int(config[at+2]), len(config))]
		}
		at = int(config[at+1]) &^ 3
	}
	return nil
}

func parseVGPU(c []byte) (VGPU, bool) {
	const first, width = 5, 10
	if len(c) < first || c[3] != 'V' || c[4] != 'F' {
		return VGPU{}, false
	}
	v := VGPU{Present: true}
	for at := first; at+1 < len(c); {
		if c[at] == 0 && at+2+2*width <= len(c) {
			v.HostDriver = text(c[at+2 : at+2+width])
			v.HostBranch = text(c[at+2+width : at+2+2*width])
			return v, true
		}
		if c[at] == 0 || c[at+1] == 0 {
			break
		}
		at += int(c[at+1])
	}
	return v, true
}

// text cuts a C string.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.TrimSpace(s)
}
