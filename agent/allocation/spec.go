package allocation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	cdi "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// Environment variables that tell a container, and whoever looks into it, what
// it has been given.
const (
	envDevices    = "BERTH_DEVICES"    // UUIDs, with commas between
	envAllocation = "BERTH_ALLOCATION" // nonce of a CDI device that brings none
)

// spec makes the CDI spec of one entry of a container: with all its devices for
// its main entry, else with none. n.mu is held.
//
// Committed devices come by the driver's CDI spec wherever there is one: that
// works with any runtime. Others come as the configuration says.
func (n *Node) spec(r *record, c *container, e entry, has *driverSpec) (*cdi.Spec, error) {
	spec := &cdi.Spec{Kind: api.CDIKind}
	edits := cdi.ContainerEdits{}
	if main, _ := c.main(); main == e.Resource && len(c.Devices) > 0 {
		var err error
		if edits, spec.ContainerEdits, err = n.devicesEdits(r, c, has); err != nil {
			return nil, err
		}
	} else {
		edits.Env = []string{envAllocation + "=" + e.Nonce}
	}
	spec.Devices = []cdi.Device{{Name: deviceName(e.Nonce), ContainerEdits: edits}}
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write down what pod %s/%s holds: %w", r.Namespace, r.Pod, err)
	}
	spec.Annotations = map[string]string{
		"berth.dev/pod": r.Namespace + "/" + r.Pod, "berth.dev/pod-uid": r.PodUID, "berth.dev/container": c.Name,
		"berth.dev/resource": e.Resource, "berth.dev/tokens": strings.Join(e.Tokens, ","),
		"berth.dev/devices": strings.Join(uuids(c.Devices), ","), recordAnnotation: string(raw),
	}
	if spec.Version, err = cdi.MinimumRequiredVersion(spec); err != nil {
		return nil, fmt.Errorf("write a CDI spec: %w", err)
	}
	return spec, nil
}

// devicesEdits gives what brings the devices of a container, and what comes with
// them from the driver whatever the device.
func (n *Node) devicesEdits(r *record, c *container, has *driverSpec) (edits, common cdi.ContainerEdits, err error) {
	p := &n.settings.Plugin
	byCDI := p.Has(config.ListCDIAnnotations) || p.Has(config.ListCDICRI)
	list := uuids(c.Devices)
	switch {
	case has != nil && (r.Committed || byCDI):
		for _, uuid := range list {
			of := has.devices[uuid]
			if of == nil {
				return edits, common, refuse(ReasonDriver, "the driver's CDI spec does not have device %s; the container starts by itself once it does", uuid)
			}
			join(&edits, of)
		}
		common = has.common
		for _, class := range n.extras() {
			for _, name := range slices.Sorted(maps.Keys(class)) {
				join(&edits, class[name])
			}
		}
		// A runtime of NVIDIA's is to add nothing of its own.
		edits.Env = append(edits.Env, visibleDevices+"="+visibleNone)
	case p.CDIOnly():
		return edits, common, refuse(ReasonDriver, "the configuration's deviceListStrategy is %s, and the driver gives no CDI spec on this node; use envvar",
			strings.Join(p.DeviceListStrategy, ","))
	default:
		join(&edits, n.edits(n.answer(c.Devices)))
	}
	if shares := n.mpsShares(c.Devices); len(shares) > 0 {
		of, err := n.o.MPS(shares)
		if err != nil {
			return edits, common, refuse(ReasonDriver, "MPS is not ready for the devices of container %s: %w; the container starts by itself once it is", c.Name, err)
		}
		if of != nil {
			join(&edits, of)
		}
	}
	edits.Env = append(edits.Env, envDevices+"="+strings.Join(list, ","))
	return edits, common, nil
}

// mpsShares are the replicas among devices, where they are shared by MPS.
func (n *Node) mpsShares(devices []device) []sharing.Device {
	if n.settings.Strategy != gpu.SharingMPS || n.o.MPS == nil {
		return nil
	}
	var out []sharing.Device
	for i := range devices {
		if d := &devices[i]; d.share() && d.Resource != sharing.ResourceMemory {
			out = append(out, d.device(true))
		}
	}
	return out
}

// join adds edits of several devices; what they have in common is there once.
func join(to, from *cdi.ContainerEdits) {
	for _, e := range from.Env {
		if !slices.Contains(to.Env, e) {
			to.Env = append(to.Env, e)
		}
	}
	for _, d := range from.DeviceNodes {
		if !slices.ContainsFunc(to.DeviceNodes, func(o *cdi.DeviceNode) bool { return o.Path == d.Path }) {
			to.DeviceNodes = append(to.DeviceNodes, d)
		}
	}
	for _, m := range from.Mounts {
		if !slices.ContainsFunc(to.Mounts, func(o *cdi.Mount) bool { return o.ContainerPath == m.ContainerPath }) {
			to.Mounts = append(to.Mounts, m)
		}
	}
	for _, h := range from.Hooks {
		same := func(o *cdi.Hook) bool {
			return o.HookName == h.HookName && o.Path == h.Path && slices.Equal(o.Args, h.Args)
		}
		if !slices.ContainsFunc(to.Hooks, same) {
			to.Hooks = append(to.Hooks, h)
		}
	}
	to.NetDevices = append(to.NetDevices, from.NetDevices...)
	to.AdditionalGIDs = append(to.AdditionalGIDs, from.AdditionalGIDs...)
}

// uuids are the GPUs and MIG devices of devices, each once.
func uuids(devices []device) []string {
	var out []string
	for i := range devices {
		if !slices.Contains(out, devices[i].UUID) {
			out = append(out, devices[i].UUID)
		}
	}
	return out
}
