package cdi

import (
	"os"
	"slices"
	"strconv"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/agent/allocation/ledger"
	"berth.dev/berth/agent/config"
)

// What NVIDIA's container runtime reads, and what it expects in a container.
//
// Source: NVIDIA's device plugin 0.20 and container toolkit 1.20.
const (
	visibleDevices = "NVIDIA_VISIBLE_DEVICES"
	visibleNone    = "void" // no devices and no driver files
	volumeRoot     = "/var/run/nvidia-container-devices"
	imexRoot       = "/dev/nvidia-caps-imex-channels/channel"
)

// injection is how a container gets its devices where no CDI spec of the driver
// brings them: as NVIDIA's plugin answers.
type injection struct {
	env    map[string]string
	mounts [][2]string // host path, container path; read-only
	nodes  []string    // device nodes on the host
}

// inject returns the injection of devices by the strategies envvar and
// volume-mounts.
func (b *Builder) inject(devices []ledger.Device) injection {
	j := injection{env: map[string]string{}}
	p := &b.Settings.Plugin
	names := b.names(devices)
	if p.Has(config.ListEnvvar) {
		j.env[visibleDevices] = strings.Join(names, ",")
		if len(b.Settings.IMEX.ChannelIDs) > 0 {
			j.env["NVIDIA_IMEX_CHANNELS"] = strings.Join(b.channels(), ",")
		}
	}
	if p.Has(config.ListVolumeMounts) {
		j.env[visibleDevices] = volumeRoot
		for _, name := range names {
			j.mounts = append(j.mounts, [2]string{os.DevNull, volumeRoot + "/" + name})
		}
		for _, id := range b.channels() {
			j.mounts = append(j.mounts, [2]string{os.DevNull, volumeRoot + "/imex/" + id})
		}
	}
	if p.PassDeviceSpecs {
		j.nodes = b.nodes(devices)
	}
	for name, on := range map[string]bool{"NVIDIA_GDRCOPY": b.Settings.GDRCopy, "NVIDIA_GDS": b.Settings.GDS, "NVIDIA_MOFED": b.Settings.MOFED} {
		if on {
			j.env[name] = "enabled"
		}
	}
	return j
}

// channels returns the IMEX channels that containers get.
func (b *Builder) channels() []string {
	var out []string
	for _, id := range b.Settings.IMEX.ChannelIDs {
		out = append(out, strconv.Itoa(id))
	}
	return out
}

// names returns what devices are called in a container, each GPU or MIG device
// once: UUIDs, or indexes, which for MIG devices are such as "0:1".
func (b *Builder) names(devices []ledger.Device) []string {
	var out []string
	for i := range devices {
		name := devices[i].UUID
		if b.Settings.Plugin.DeviceIDStrategy == "index" {
			name = b.index(name)
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// index returns the index of a GPU or MIG device, or its UUID if it has none.
func (b *Builder) index(uuid string) string {
	g, m, ok := b.Snapshot.Find(uuid)
	switch {
	case !ok:
		return uuid
	case m == nil:
		return strconv.Itoa(g.Index)
	}
	for i := range g.MIG {
		if g.MIG[i].UUID == uuid {
			return strconv.Itoa(g.Index) + ":" + strconv.Itoa(i)
		}
	}
	return uuid
}

// edits returns an injection as CDI container edits.
func (b *Builder) edits(j injection) *specs.ContainerEdits {
	e := &specs.ContainerEdits{Env: envList(j.env)}
	for _, m := range j.mounts {
		e.Mounts = append(e.Mounts, &specs.Mount{HostPath: m[0], ContainerPath: m[1], Options: []string{"ro", "nosuid", "nodev", "bind"}})
	}
	for _, path := range j.nodes {
		e.DeviceNodes = append(e.DeviceNodes, &specs.DeviceNode{Path: path, HostPath: b.host(path), Permissions: "rw"})
	}
	return e
}

func envList(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}
