package cdi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/agent/allocation/checkpoint"
	"berth.dev/berth/agent/allocation/ledger"
	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// Environment variables that say what a container got.
const (
	envDevices    = "BERTH_DEVICES"    // UUIDs, separated by commas
	envAllocation = "BERTH_ALLOCATION" // nonce of a CDI device that brings no device
)

// Builder makes specs and answers from what the node has and how it is configured.
// It is a value: allocation.Node replaces it when one of its fields changes.
type Builder struct {
	Snapshot nvml.Snapshot
	Settings config.Settings
	DevRoot  string // the directory that has the node's dev, as the agent sees it
	// MPS returns the edits by which a container with these shares reaches the MPS
	// daemon. It is called where the configuration shares by MPS; nil: no daemon.
	MPS func(shares []sharing.Device) (*specs.ContainerEdits, error)
}

// Spec returns the CDI spec for one entry of a container: with all its devices for
// its main entry, with none for the others. driver may be nil.
//
// Committed devices come by the driver's CDI spec if there is one, because that
// works with any runtime. Others come as the configuration says.
func (b *Builder) Spec(r *ledger.Record, c *ledger.Container, e checkpoint.Entry, driver *DriverSpec) (*specs.Spec, error) {
	spec := &specs.Spec{Kind: api.CDIKind}
	edits := specs.ContainerEdits{}
	if main, _ := c.Main(); main == e.Resource && len(c.Devices) > 0 {
		var err error
		if edits, spec.ContainerEdits, err = b.deviceEdits(r, c, driver); err != nil {
			return nil, err
		}
	} else {
		edits.Env = []string{envAllocation + "=" + e.Nonce}
	}
	spec.Devices = []specs.Device{{Name: checkpoint.DeviceName(e.Nonce), ContainerEdits: edits}}
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("record what pod %s/%s holds: %w", r.Namespace, r.Pod, err)
	}
	spec.Annotations = map[string]string{
		"berth.dev/pod": r.Namespace + "/" + r.Pod, "berth.dev/pod-uid": r.PodUID, "berth.dev/container": c.Name,
		"berth.dev/resource": e.Resource, "berth.dev/tokens": strings.Join(e.DeviceIDs, ","),
		"berth.dev/devices": strings.Join(ledger.UUIDs(c.Devices), ","), recordAnnotation: string(raw),
	}
	if spec.Version, err = specs.MinimumRequiredVersion(spec); err != nil {
		return nil, fmt.Errorf("write a CDI spec: %w", err)
	}
	return spec, nil
}

// deviceEdits returns the edits for the devices of a container, and the driver's
// edits that come with every device.
func (b *Builder) deviceEdits(r *ledger.Record, c *ledger.Container, driver *DriverSpec) (edits, common specs.ContainerEdits, err error) {
	p := &b.Settings.Plugin
	list := ledger.UUIDs(c.Devices)
	switch {
	case driver != nil && (r.Committed || b.ByCDI()):
		for _, uuid := range list {
			of := driver.devices[uuid]
			if of == nil {
				return edits, common, notice.Refuse(notice.ReasonDriver, "the driver's CDI spec does not have device %s; the container starts automatically once it does", uuid)
			}
			merge(&edits, of)
		}
		common = driver.common
		for _, class := range b.extras() {
			for _, name := range slices.Sorted(maps.Keys(class)) {
				merge(&edits, class[name])
			}
		}
		// NVIDIA's runtimes must add nothing themselves.
		edits.Env = append(edits.Env, visibleDevices+"="+visibleNone)
	case p.CDIOnly():
		return edits, common, notice.Refuse(notice.ReasonDriver, "the configuration's deviceListStrategy is %s, and the driver gives no CDI spec on this node; use envvar",
			strings.Join(p.DeviceListStrategy, ","))
	default:
		merge(&edits, b.edits(b.inject(c.Devices)))
	}
	if shares := b.mpsShares(c.Devices); len(shares) > 0 {
		of, err := b.MPS(shares)
		if err != nil {
			return edits, common, notice.Refuse(notice.ReasonDriver, "MPS is not ready for the devices of container %s: %w; the container starts automatically once it is", c.Name, err)
		}
		if of != nil {
			merge(&edits, of)
		}
	}
	edits.Env = append(edits.Env, envDevices+"="+strings.Join(list, ","))
	return edits, common, nil
}

// ByCDI reports whether the configuration gives containers their GPUs by CDI,
// committed or not.
func (b *Builder) ByCDI() bool {
	return b.Settings.Plugin.Has(config.ListCDIAnnotations) || b.Settings.Plugin.Has(config.ListCDICRI)
}

// mpsShares returns the replicas among devices if they are shared by MPS.
func (b *Builder) mpsShares(devices []ledger.Device) []sharing.Device {
	if b.Settings.Strategy != gpu.SharingMPS || b.MPS == nil {
		return nil
	}
	var out []sharing.Device
	for i := range devices {
		if d := &devices[i]; d.Share() && d.Resource != sharing.ResourceMemory {
			out = append(out, d.Sharing(true))
		}
	}
	return out
}

// merge adds the edits of one device to those of others. What both have is there
// once.
func merge(to, from *specs.ContainerEdits) {
	for _, e := range from.Env {
		if !slices.Contains(to.Env, e) {
			to.Env = append(to.Env, e)
		}
	}
	for _, d := range from.DeviceNodes {
		if !slices.ContainsFunc(to.DeviceNodes, func(o *specs.DeviceNode) bool { return o.Path == d.Path }) {
			to.DeviceNodes = append(to.DeviceNodes, d)
		}
	}
	for _, m := range from.Mounts {
		if !slices.ContainsFunc(to.Mounts, func(o *specs.Mount) bool { return o.ContainerPath == m.ContainerPath }) {
			to.Mounts = append(to.Mounts, m)
		}
	}
	for _, h := range from.Hooks {
		same := func(o *specs.Hook) bool {
			return o.HookName == h.HookName && o.Path == h.Path && slices.Equal(o.Args, h.Args)
		}
		if !slices.ContainsFunc(to.Hooks, same) {
			to.Hooks = append(to.Hooks, h)
		}
	}
	to.NetDevices = append(to.NetDevices, from.NetDevices...)
	to.AdditionalGIDs = append(to.AdditionalGIDs, from.AdditionalGIDs...)
}
