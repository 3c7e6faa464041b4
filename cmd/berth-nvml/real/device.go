//go:build cgo

package real

import (
	"encoding/hex"
	"fmt"
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"berth.dev/berth/agent/nvml"
)

// device is a GPU or a MIG device.
type device struct {
	l   *Library
	h   gonvml.Device
	mig bool // a MIG device
}

var _ nvml.Device = (*device)(nil)

// UUID returns the UUID, and remembers it: an event of a lost GPU has only the
// handle.
func (d *device) UUID() (string, error) {
	uuid, err := call(d.l, d.h.GetUUID, "nvmlDeviceGetUUID")
	if err == nil {
		d.l.mu.Lock()
		d.l.uuids[d.h] = uuid
		d.l.mu.Unlock()
	}
	return uuid, err
}

func (d *device) Name() (string, error) { return call(d.l, d.h.GetName, "nvmlDeviceGetName") }
func (d *device) Minor() (int, error) {
	return call(d.l, d.h.GetMinorNumber, "nvmlDeviceGetMinorNumber")
}

// PCI returns the address, and the class from the driver or else from the kernel.
func (d *device) PCI() (nvml.PCI, error) {
	info, err := call(d.l, d.h.GetPciInfo, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")
	if err != nil {
		return nvml.PCI{}, err
	}
	pci := nvml.PCI{BusID: text(info.BusId[:]), ID: info.PciDeviceId, SubsystemID: info.PciSubSystemId}
	if d.l.need("nvmlDeviceGetPciInfoExt") == nil {
		if ext, ret := d.h.GetPciInfoExt(); ret == gonvml.SUCCESS {
			pci.Class = int(ext.BaseClass<<8 | ext.SubClass&0xff)
		}
	}
	if pci.Class == 0 {
		pci.Class = d.l.host.class(pci.BusID)
	}
	return pci, nil
}

// text reads a C string.
func text(chars []int8) string {
	out := make([]byte, 0, len(chars))
	for _, c := range chars {
		if c == 0 {
			break
		}
		out = append(out, byte(c))
	}
	return string(out)
}

func (d *device) NUMANode() (int, error) {
	pci, err := d.PCI()
	if err != nil {
		return -1, err
	}
	return d.l.host.numaNode(pci.BusID), nil
}

func (d *device) ComputeCapability() (major, minor int, err error) {
	if err := d.l.need("nvmlDeviceGetCudaComputeCapability"); err != nil {
		return 0, 0, err
	}
	major, minor, ret := d.h.GetCudaComputeCapability()
	return major, minor, check(ret)
}

func (d *device) Cores() (int, error) {
	return call(d.l, d.h.GetNumGpuCores, "nvmlDeviceGetNumGpuCores")
}

// Memory asks the newer call; the older one counts what the driver keeps as used.
func (d *device) Memory() (nvml.Memory, error) {
	m, err := call(d.l, d.h.GetMemoryInfo_v2, "nvmlDeviceGetMemoryInfo_v2")
	if err == nil {
		return nvml.Memory{Total: int64(m.Total), Used: int64(m.Used), Reserved: int64(m.Reserved)}, nil
	}
	old, err := call(d.l, d.h.GetMemoryInfo, "nvmlDeviceGetMemoryInfo")
	return nvml.Memory{Total: int64(old.Total), Used: int64(old.Used)}, err
}

// Nodes returns /dev/nvidiaN of a GPU; of a MIG device, what opens its instances.
func (d *device) Nodes() ([]string, error) {
	if !d.mig {
		minor, err := d.Minor()
		if err != nil {
			return nil, err
		}
		return []string{fmt.Sprintf("/dev/nvidia%d", minor)}, nil
	}
	gi, err := d.GPUInstanceID()
	if err != nil {
		return nil, err
	}
	ci, err := d.ComputeInstanceID()
	if err != nil {
		return nil, err
	}
	parent, err := call(d.l, d.h.GetDeviceHandleFromMigDeviceHandle, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle")
	if err != nil {
		return nil, err
	}
	minor, err := (&device{l: d.l, h: parent}).Minor()
	if err != nil {
		return nil, err
	}
	return d.l.host.migNodes(minor, gi, ci)
}

// NVLink describes one link. Its other end is left unknown where the driver
// does not tell it.
func (d *device) NVLink(link int) (nvml.NVLink, error) {
	state, err := call(d.l, func() (gonvml.EnableState, gonvml.Return) { return d.h.GetNvLinkState(link) }, "nvmlDeviceGetNvLinkState")
	if err != nil || state != gonvml.FEATURE_ENABLED {
		return nvml.NVLink{}, err
	}
	out := nvml.NVLink{Active: true}
	if d.l.need("nvmlDeviceGetNvLinkRemoteDeviceType") == nil {
		kind, ret := d.h.GetNvLinkRemoteDeviceType(link)
		out.Switch = ret == gonvml.SUCCESS && kind == gonvml.NVLINK_DEVICE_TYPE_SWITCH
	}
	if d.l.need("nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo") == nil {
		if pci, ret := d.h.GetNvLinkRemotePciInfo(link); ret == gonvml.SUCCESS {
			out.Remote = text(pci.BusId[:])
		}
	}
	return out, nil
}

// Fabric returns "<cluster UUID>.<clique>" once the GPU has joined a fabric of
// several nodes. The GPUs of one node alone have a cluster of only zeros.
func (d *device) Fabric() (string, error) {
	info, err := call(d.l, func() (gonvml.GpuFabricInfo_v2, gonvml.Return) { return d.h.GetGpuFabricInfoV().V2() }, "nvmlDeviceGetGpuFabricInfoV")
	if err != nil {
		old, oldErr := call(d.l, d.h.GetGpuFabricInfo, "nvmlDeviceGetGpuFabricInfo")
		if oldErr != nil {
			return "", err
		}
		info = gonvml.GpuFabricInfo_v2{ClusterUuid: old.ClusterUuid, Status: old.Status, CliqueId: old.CliqueId, State: old.State}
	}
	u := info.ClusterUuid[:]
	ready := info.State == gonvml.GPU_FABRIC_STATE_COMPLETED && gonvml.Return(info.Status) == gonvml.SUCCESS
	if !ready || !slices.ContainsFunc(u, func(b byte) bool { return b != 0 }) {
		return "", nil
	}
	h := hex.EncodeToString(u)
	return fmt.Sprintf("%s-%s-%s-%s-%s.%d", h[:8], h[8:12], h[12:16], h[16:20], h[20:], info.CliqueId), nil
}

func (d *device) SupportedEvents() (uint64, error) {
	return call(d.l, d.h.GetSupportedEventTypes, "nvmlDeviceGetSupportedEventTypes")
}

func (d *device) SetComputeMode(mode int) error {
	if err := d.l.need("nvmlDeviceSetComputeMode"); err != nil {
		return err
	}
	return check(d.h.SetComputeMode(gonvml.ComputeMode(mode)))
}

// SetMemoryLimit limits what the processes of a cgroup v2 folder may take of
// the GPU's memory; 0 bytes or less lifts the limit. The driver drops the limit
// with the cgroup.
func (d *device) SetMemoryLimit(cgroup string, bytes int64) error {
	if err := d.l.need("nvmlDeviceSetMemoryLimits_v1"); err != nil {
		return err
	}
	soft, hard := uint64(bytes), uint64(bytes)
	if bytes <= 0 {
		soft, hard = 0, gonvml.DEVICE_MEMORY_LIMIT_MAX
	}
	return check(d.h.SetMemoryLimits_v1(cgroup, soft, hard))
}
