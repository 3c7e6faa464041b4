package allocation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/agent/config"
)

// vendor is the CDI vendor of NVIDIA's device plugin.
const vendor = "k8s.device-plugin.nvidia.com"

// upstream answers with the devices themselves, as NVIDIA's plugin does. n.mu is
// held.
//
// Source: Allocate of NVIDIA's device plugin 0.20.
func (n *Node) upstream(devices []device) (*v1beta1.ContainerAllocateResponse, error) {
	out := &v1beta1.ContainerAllocateResponse{Envs: map[string]string{}}
	p := &n.settings.Plugin
	if names := n.cdiNames(devices); p.Has(config.ListCDIAnnotations) && len(names) > 0 {
		id, err := newNonce()
		if err != nil {
			return nil, err
		}
		out.Annotations = map[string]string{p.CDIAnnotationPrefix + "nvidia-device-plugin_" + id: strings.Join(names, ",")}
	}
	if p.Has(config.ListCDICRI) {
		for _, name := range n.cdiNames(devices) {
			out.CdiDevices = append(out.CdiDevices, &v1beta1.CDIDevice{Name: name})
		}
	}
	if !p.CDIOnly() {
		t := n.answer(devices)
		maps.Copy(out.Envs, t.env)
		for _, m := range t.mounts {
			out.Mounts = append(out.Mounts, &v1beta1.Mount{HostPath: m[0], ContainerPath: m[1], ReadOnly: true})
		}
		for _, path := range t.nodes {
			out.Devices = append(out.Devices, &v1beta1.DeviceSpec{HostPath: n.host(path), ContainerPath: path, Permissions: "rw"})
		}
	}
	shares := n.mpsShares(devices)
	if len(shares) == 0 {
		return out, nil
	}
	of, err := n.o.MPS(shares)
	if err != nil {
		return nil, fmt.Errorf("MPS is not ready: %w", err)
	}
	if of == nil {
		return out, nil
	}
	for _, e := range of.Env {
		name, value, _ := strings.Cut(e, "=")
		out.Envs[name] = value
	}
	for _, m := range of.Mounts {
		out.Mounts = append(out.Mounts, &v1beta1.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, ReadOnly: slices.Contains(m.Options, "ro")})
	}
	return out, nil
}

// cdiNames are the CDI devices of devices and of what the configuration gives
// beside them.
func (n *Node) cdiNames(devices []device) []string {
	var out []string
	for _, name := range n.names(devices) {
		out = append(out, vendor+"/gpu="+name)
	}
	extras := n.extras()
	for _, class := range slices.Sorted(maps.Keys(extras)) {
		for _, name := range slices.Sorted(maps.Keys(extras[class])) {
			out = append(out, vendor+"/"+class+"="+name)
		}
	}
	return out
}

// writeDriverSpecs writes the driver's CDI specs under the names of NVIDIA's
// plugin, which mode kubelet answers with. In any other case it does nothing.
func (n *Node) writeDriverSpecs(ctx context.Context) error {
	n.mu.Lock()
	p := n.settings.Plugin
	n.mu.Unlock()
	if !n.o.Kubelet || !p.Has(config.ListCDIAnnotations) && !p.Has(config.ListCDICRI) {
		return nil
	}
	has, err := n.driver.get(ctx)
	if err != nil || has == nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	specs := map[string]*cdi.Spec{"gpu": {Kind: vendor + "/gpu", ContainerEdits: has.common}}
	for _, uuid := range slices.Sorted(maps.Keys(has.devices)) {
		name := uuid
		if p.DeviceIDStrategy == "index" {
			name = n.index(uuid)
		}
		specs["gpu"].Devices = append(specs["gpu"].Devices, cdi.Device{Name: name, ContainerEdits: *has.devices[uuid]})
	}
	for class, devices := range n.extras() {
		spec := &cdi.Spec{Kind: vendor + "/" + class}
		for _, name := range slices.Sorted(maps.Keys(devices)) {
			spec.Devices = append(spec.Devices, cdi.Device{Name: name, ContainerEdits: *devices[name]})
		}
		specs[class] = spec
	}
	for class, spec := range specs {
		if spec.Version, err = cdi.MinimumRequiredVersion(spec); err != nil {
			return fmt.Errorf("write a CDI spec: %w", err)
		}
		raw, err := json.Marshal(spec)
		if err != nil {
			return fmt.Errorf("write a CDI spec: %w", err)
		}
		path := filepath.Join(n.o.CDIDir, vendor+"-"+class+".json")
		if err := replaceFile(path, raw); err != nil {
			return fmt.Errorf("write the driver's CDI spec: %w", err)
		}
	}
	return nil
}

// replaceFile puts a file in its place whole.
func replaceFile(path string, raw []byte) error {
	half := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+halfSuffix)
	if err := os.WriteFile(half, raw, 0o644); err != nil {
		_ = os.Remove(half)
		return err
	}
	return os.Rename(half, path)
}
