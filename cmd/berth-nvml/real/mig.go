//go:build cgo

package real

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"berth.dev/berth/agent/nvml"
)

// maxInstances is more than the GPU instances of a GPU, and the compute
// instances of one.
const maxInstances = 16

func (d *device) MIGMode() (current, pending bool, err error) {
	if err := d.l.need("nvmlDeviceGetMigMode"); err != nil {
		return false, false, err
	}
	c, p, ret := d.h.GetMigMode()
	return c == gonvml.DEVICE_MIG_ENABLE, p == gonvml.DEVICE_MIG_ENABLE, check(ret)
}

func (d *device) SetMIGMode(on bool) (activation, err error) {
	if err := d.l.need("nvmlDeviceSetMigMode"); err != nil {
		return nil, err
	}
	mode := gonvml.DEVICE_MIG_DISABLE
	if on {
		mode = gonvml.DEVICE_MIG_ENABLE
	}
	status, ret := d.h.SetMigMode(mode)
	if err := check(ret); err != nil {
		return nil, err
	}
	return check(status), nil
}

func (d *device) MaxMIGDevices() (int, error) {
	return call(d.l, d.h.GetMaxMigDeviceCount, "nvmlDeviceGetMaxMigDeviceCount")
}

func (d *device) MIGDevice(index int) (nvml.Device, error) {
	h, err := call(d.l, func() (gonvml.Device, gonvml.Return) { return d.h.GetMigDeviceHandleByIndex(index) }, "nvmlDeviceGetMigDeviceHandleByIndex")
	if err != nil {
		return nil, err
	}
	return &device{l: d.l, h: h, mig: true}, nil
}

func (d *device) GPUInstanceProfile(shape int) (nvml.GPUInstanceProfile, error) {
	p, err := call(d.l, func() (gonvml.GpuInstanceProfileInfo, gonvml.Return) { return d.h.GetGpuInstanceProfileInfo(shape) },
		"nvmlDeviceGetGpuInstanceProfileInfo")
	if err != nil {
		return nvml.GPUInstanceProfile{}, err
	}
	return nvml.GPUInstanceProfile{
		ID: int(p.Id), Slices: int(p.SliceCount), Max: int(p.InstanceCount), Multiprocessors: int(p.MultiprocessorCount), MemoryMiB: int64(p.MemorySizeMB),
		CopyEngines: int(p.CopyEngineCount), Decoders: int(p.DecoderCount), Encoders: int(p.EncoderCount), JPEG: int(p.JpegCount), OFA: int(p.OfaCount),
	}, nil
}

func (d *device) Placements(profile int) ([]nvml.Placement, error) {
	info := &gonvml.GpuInstanceProfileInfo{Id: uint32(profile)}
	list, err := call(d.l, func() ([]gonvml.GpuInstancePlacement, gonvml.Return) {
		return d.h.GetGpuInstancePossiblePlacements(info)
	},
		"nvmlDeviceGetGpuInstancePossiblePlacements_v2", "nvmlDeviceGetGpuInstancePossiblePlacements")
	var out []nvml.Placement
	for _, p := range list {
		out = append(out, nvml.Placement{Start: int(p.Start), Size: int(p.Size)})
	}
	return out, err
}

func (d *device) GPUInstances(profile int) ([]nvml.GPUInstance, error) {
	info := &gonvml.GpuInstanceProfileInfo{Id: uint32(profile), InstanceCount: maxInstances}
	list, err := call(d.l, func() ([]gonvml.GpuInstance, gonvml.Return) { return d.h.GetGpuInstances(info) }, "nvmlDeviceGetGpuInstances")
	if err != nil {
		return nil, err
	}
	var out []nvml.GPUInstance
	for _, h := range list {
		i, err := d.describe(h)
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}

func (d *device) describe(h gonvml.GpuInstance) (nvml.GPUInstance, error) {
	i, err := call(d.l, h.GetInfo, "nvmlGpuInstanceGetInfo")
	at := nvml.Placement{Start: int(i.Placement.Start), Size: int(i.Placement.Size)}
	return nvml.GPUInstance{ID: int(i.Id), Profile: int(i.ProfileId), Placement: at}, err
}

func (d *device) CreateGPUInstance(profile int, at nvml.Placement) (nvml.GPUInstance, error) {
	info := &gonvml.GpuInstanceProfileInfo{Id: uint32(profile)}
	place := &gonvml.GpuInstancePlacement{Start: uint32(at.Start), Size: uint32(at.Size)}
	h, err := call(d.l, func() (gonvml.GpuInstance, gonvml.Return) { return d.h.CreateGpuInstanceWithPlacement(info, place) },
		"nvmlDeviceCreateGpuInstanceWithPlacement")
	if err != nil {
		return nvml.GPUInstance{}, err
	}
	return d.describe(h)
}

func (d *device) gpuInstance(gi int) (gonvml.GpuInstance, error) {
	return call(d.l, func() (gonvml.GpuInstance, gonvml.Return) { return d.h.GetGpuInstanceById(gi) }, "nvmlDeviceGetGpuInstanceById")
}

func (d *device) DestroyGPUInstance(gi int) error {
	h, err := d.gpuInstance(gi)
	if err != nil {
		return err
	}
	if err := d.l.need("nvmlGpuInstanceDestroy"); err != nil {
		return err
	}
	return check(h.Destroy())
}

func (d *device) ComputeInstanceProfile(gi, shape int) (nvml.ComputeInstanceProfile, error) {
	h, err := d.gpuInstance(gi)
	if err != nil {
		return nvml.ComputeInstanceProfile{}, err
	}
	p, err := call(d.l, func() (gonvml.ComputeInstanceProfileInfo, gonvml.Return) {
		return h.GetComputeInstanceProfileInfo(shape, gonvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
	}, "nvmlGpuInstanceGetComputeInstanceProfileInfo")
	return nvml.ComputeInstanceProfile{ID: int(p.Id), Slices: int(p.SliceCount)}, err
}

func (d *device) ComputeInstances(gi, profile int) ([]int, error) {
	h, err := d.gpuInstance(gi)
	if err != nil {
		return nil, err
	}
	info := &gonvml.ComputeInstanceProfileInfo{Id: uint32(profile), InstanceCount: maxInstances}
	list, err := call(d.l, func() ([]gonvml.ComputeInstance, gonvml.Return) { return h.GetComputeInstances(info) }, "nvmlGpuInstanceGetComputeInstances")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, c := range list {
		i, err := call(d.l, c.GetInfo, "nvmlComputeInstanceGetInfo_v2", "nvmlComputeInstanceGetInfo")
		if err != nil {
			return nil, err
		}
		out = append(out, int(i.Id))
	}
	return out, nil
}

func (d *device) CreateComputeInstance(gi, profile int) (int, error) {
	h, err := d.gpuInstance(gi)
	if err != nil {
		return 0, err
	}
	info := &gonvml.ComputeInstanceProfileInfo{Id: uint32(profile)}
	c, err := call(d.l, func() (gonvml.ComputeInstance, gonvml.Return) { return h.CreateComputeInstance(info) }, "nvmlGpuInstanceCreateComputeInstance")
	if err != nil {
		return 0, err
	}
	i, err := call(d.l, c.GetInfo, "nvmlComputeInstanceGetInfo_v2", "nvmlComputeInstanceGetInfo")
	return int(i.Id), err
}

func (d *device) DestroyComputeInstance(gi, ci int) error {
	h, err := d.gpuInstance(gi)
	if err != nil {
		return err
	}
	c, err := call(d.l, func() (gonvml.ComputeInstance, gonvml.Return) { return h.GetComputeInstanceById(ci) }, "nvmlGpuInstanceGetComputeInstanceById")
	if err != nil {
		return err
	}
	if err := d.l.need("nvmlComputeInstanceDestroy"); err != nil {
		return err
	}
	return check(c.Destroy())
}

func (d *device) GPUInstanceID() (int, error) {
	if !d.mig {
		return 0, nvml.NotSupported
	}
	return call(d.l, d.h.GetGpuInstanceId, "nvmlDeviceGetGpuInstanceId")
}

func (d *device) ComputeInstanceID() (int, error) {
	if !d.mig {
		return 0, nvml.NotSupported
	}
	return call(d.l, d.h.GetComputeInstanceId, "nvmlDeviceGetComputeInstanceId")
}

func (d *device) Attributes() (nvml.Attributes, error) {
	a, err := call(d.l, d.h.GetAttributes, "nvmlDeviceGetAttributes_v2", "nvmlDeviceGetAttributes")
	return nvml.Attributes{
		Multiprocessors: int(a.MultiprocessorCount), MemoryMiB: int64(a.MemorySizeMB),
		GPUInstanceSlices: int(a.GpuInstanceSliceCount), ComputeInstanceSlices: int(a.ComputeInstanceSliceCount),
	}, err
}
