package cdi

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/agent/allocation/checkpoint"
	"berth.dev/berth/agent/allocation/ledger"
	"berth.dev/berth/agent/config"
)

// vendor is the CDI vendor of NVIDIA's device plugin.
const vendor = "k8s.device-plugin.nvidia.com"

// Placeholder returns the answer to Allocate that brings no device: one CDI device
// that does not exist until its spec is written.
func Placeholder(nonce string) *v1beta1.ContainerAllocateResponse {
	return &v1beta1.ContainerAllocateResponse{
		Envs:       map[string]string{visibleDevices: visibleNone},
		CdiDevices: []*v1beta1.CDIDevice{{Name: checkpoint.CDIName(nonce)}},
	}
}

// Response returns the answer to Allocate with the devices themselves, as NVIDIA's
// plugin gives it.
//
// Source: Allocate of NVIDIA's device plugin 0.20.
func (b *Builder) Response(devices []ledger.Device) (*v1beta1.ContainerAllocateResponse, error) {
	out := &v1beta1.ContainerAllocateResponse{Envs: map[string]string{}}
	p := &b.Settings.Plugin
	if names := b.cdiNames(devices); p.Has(config.ListCDIAnnotations) && len(names) > 0 {
		id, err := checkpoint.NewNonce()
		if err != nil {
			return nil, err
		}
		out.Annotations = map[string]string{p.CDIAnnotationPrefix + "nvidia-device-plugin_" + id: strings.Join(names, ",")}
	}
	if p.Has(config.ListCDICRI) {
		for _, name := range b.cdiNames(devices) {
			out.CdiDevices = append(out.CdiDevices, &v1beta1.CDIDevice{Name: name})
		}
	}
	if !p.CDIOnly() {
		j := b.inject(devices)
		maps.Copy(out.Envs, j.env)
		for _, m := range j.mounts {
			out.Mounts = append(out.Mounts, &v1beta1.Mount{HostPath: m[0], ContainerPath: m[1], ReadOnly: true})
		}
		for _, path := range j.nodes {
			out.Devices = append(out.Devices, &v1beta1.DeviceSpec{HostPath: b.host(path), ContainerPath: path, Permissions: "rw"})
		}
	}
	return out, b.addMPS(out, devices)
}

// addMPS adds what brings a container with shares by MPS to the MPS daemon.
func (b *Builder) addMPS(out *v1beta1.ContainerAllocateResponse, devices []ledger.Device) error {
	shares := b.mpsShares(devices)
	if len(shares) == 0 {
		return nil
	}
	of, err := b.MPS(shares)
	if err != nil {
		return fmt.Errorf("MPS is not ready: %w", err)
	}
	if of == nil {
		return nil
	}
	for _, e := range of.Env {
		name, value, _ := strings.Cut(e, "=")
		out.Envs[name] = value
	}
	for _, m := range of.Mounts {
		out.Mounts = append(out.Mounts, &v1beta1.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, ReadOnly: slices.Contains(m.Options, "ro")})
	}
	return nil
}

// cdiNames returns the CDI devices of devices and of what the configuration gives
// besides them.
func (b *Builder) cdiNames(devices []ledger.Device) []string {
	var out []string
	for _, name := range b.names(devices) {
		out = append(out, vendor+"/gpu="+name)
	}
	extras := b.extras()
	for _, class := range slices.Sorted(maps.Keys(extras)) {
		for _, name := range slices.Sorted(maps.Keys(extras[class])) {
			out = append(out, vendor+"/"+class+"="+name)
		}
	}
	return out
}

// WriteDriverSpecs writes the driver's CDI specs under the names of NVIDIA's
// plugin, which the answers of Response refer to.
func (b *Builder) WriteDriverSpecs(dir string, driver *DriverSpec) error {
	gpus := &specs.Spec{Kind: vendor + "/gpu", ContainerEdits: driver.common}
	for _, uuid := range slices.Sorted(maps.Keys(driver.devices)) {
		name := uuid
		if b.Settings.Plugin.DeviceIDStrategy == "index" {
			name = b.index(uuid)
		}
		gpus.Devices = append(gpus.Devices, specs.Device{Name: name, ContainerEdits: *driver.devices[uuid]})
	}
	all := map[string]*specs.Spec{"gpu": gpus}
	for class, devices := range b.extras() {
		spec := &specs.Spec{Kind: vendor + "/" + class}
		for _, name := range slices.Sorted(maps.Keys(devices)) {
			spec.Devices = append(spec.Devices, specs.Device{Name: name, ContainerEdits: *devices[name]})
		}
		all[class] = spec
	}
	for class, spec := range all {
		var err error
		if spec.Version, err = specs.MinimumRequiredVersion(spec); err != nil {
			return fmt.Errorf("write a CDI spec: %w", err)
		}
		raw, err := json.Marshal(spec)
		if err != nil {
			return fmt.Errorf("write a CDI spec: %w", err)
		}
		if err := replaceFile(filepath.Join(dir, vendor+"-"+class+".json"), raw); err != nil {
			return fmt.Errorf("write the driver's CDI spec: %w", err)
		}
	}
	return nil
}
