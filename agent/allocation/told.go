package allocation

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	cdi "tags.cncf.io/container-device-interface/specs-go"

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

// controlNodes belong to the driver and not to one GPU. A container gets those
// that the node has.
var controlNodes = []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}

// told is how a container is told of its devices where no CDI spec of the driver
// does it: as NVIDIA's plugin answers.
type told struct {
	env    map[string]string
	mounts [][2]string // host path, container path; read-only
	nodes  []string    // device nodes on the host
}

// answer tells of devices by the strategies envvar and volume-mounts.
// n.mu is held.
func (n *Node) answer(devices []device) told {
	t := told{env: map[string]string{}}
	p := &n.settings.Plugin
	names := n.names(devices)
	if p.Has(config.ListEnvvar) {
		t.env[visibleDevices] = strings.Join(names, ",")
		if len(n.settings.IMEX.ChannelIDs) > 0 {
			t.env["NVIDIA_IMEX_CHANNELS"] = strings.Join(n.channels(), ",")
		}
	}
	if p.Has(config.ListVolumeMounts) {
		t.env[visibleDevices] = volumeRoot
		for _, name := range names {
			t.mounts = append(t.mounts, [2]string{os.DevNull, volumeRoot + "/" + name})
		}
		for _, id := range n.channels() {
			t.mounts = append(t.mounts, [2]string{os.DevNull, volumeRoot + "/imex/" + id})
		}
	}
	if p.PassDeviceSpecs {
		t.nodes = n.nodes(devices)
	}
	for name, on := range map[string]bool{"NVIDIA_GDRCOPY": n.settings.GDRCopy, "NVIDIA_GDS": n.settings.GDS, "NVIDIA_MOFED": n.settings.MOFED} {
		if on {
			t.env[name] = "enabled"
		}
	}
	return t
}

// channels are the IMEX channels that containers get.
func (n *Node) channels() []string {
	var out []string
	for _, id := range n.settings.IMEX.ChannelIDs {
		out = append(out, strconv.Itoa(id))
	}
	return out
}

// names are what devices are called in a container, each piece of hardware once:
// UUIDs, or indexes, which for MIG devices are "0:1".
func (n *Node) names(devices []device) []string {
	var out []string
	for i := range devices {
		name := devices[i].UUID
		if n.settings.Plugin.DeviceIDStrategy == "index" {
			name = n.index(name)
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// index is the index of a GPU or MIG device, or its UUID where it has none.
func (n *Node) index(uuid string) string {
	g, m, ok := n.snapshot.Find(uuid)
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

// nodes are the device nodes of devices, after the driver's own.
func (n *Node) nodes(devices []device) []string {
	var out []string
	for _, path := range controlNodes {
		if n.there(path) {
			out = append(out, path)
		}
	}
	add := func(paths []string) {
		for _, path := range paths {
			if !slices.Contains(out, path) {
				out = append(out, path)
			}
		}
	}
	for i := range devices {
		g, m, ok := n.snapshot.Find(devices[i].UUID)
		if !ok {
			continue
		}
		if add(g.Nodes); m != nil {
			add(g.MIGNodes[m.UUID])
		}
	}
	return out
}

// there tells whether the node has a file in dev.
func (n *Node) there(path string) bool {
	_, err := os.Stat(filepath.Join(n.o.DevRoot, path))
	return err == nil
}

// host is a path of dev as the kubelet and the runtime call it.
func (n *Node) host(path string) string {
	if n.settings.DevRoot == "" {
		return path
	}
	return filepath.Join(n.settings.DevRoot, path)
}

// edits are the same in the words of CDI.
func (n *Node) edits(t told) *cdi.ContainerEdits {
	e := &cdi.ContainerEdits{Env: envList(t.env)}
	for _, m := range t.mounts {
		e.Mounts = append(e.Mounts, &cdi.Mount{HostPath: m[0], ContainerPath: m[1], Options: []string{"ro", "nosuid", "nodev", "bind"}})
	}
	for _, path := range t.nodes {
		e.DeviceNodes = append(e.DeviceNodes, &cdi.DeviceNode{Path: path, HostPath: n.host(path), Permissions: "rw"})
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

// extras are what the configuration gives containers beside GPUs, where they get
// them by CDI: edits by class and name, such as "gdrcopy" and "all". What the
// node does not have is left out, except an IMEX channel that is required: the
// runtime says then that it is missing.
func (n *Node) extras() map[string]map[string]*cdi.ContainerEdits {
	out := map[string]map[string]*cdi.ContainerEdits{}
	add := func(class, name string, nodes []string, mounts ...string) {
		if len(nodes) == 0 {
			return
		}
		e := n.edits(told{nodes: nodes})
		for _, m := range mounts {
			e.Mounts = append(e.Mounts, &cdi.Mount{HostPath: m, ContainerPath: m, Options: []string{"ro", "nosuid", "nodev", "bind"}})
		}
		if out[class] == nil {
			out[class] = map[string]*cdi.ContainerEdits{}
		}
		out[class][name] = e
	}
	for _, id := range n.channels() {
		if path := imexRoot + id; n.there(path) || n.settings.IMEX.Required {
			add("imex-channel", id, []string{path})
		}
	}
	if n.settings.GDRCopy {
		add("gdrcopy", "all", n.glob("/dev/gdrdrv"))
	}
	if n.settings.GDS {
		add("gds", "all", n.glob("/dev/nvidia-fs*"), "/run/udev")
	}
	if n.settings.MOFED {
		add("mofed", "all", slices.Concat(n.glob("/dev/infiniband/uverbs*"), n.glob("/dev/infiniband/rdma_cm")))
	}
	return out
}

// glob gives paths of dev that match a pattern, sorted.
func (n *Node) glob(pattern string) []string {
	found, err := filepath.Glob(filepath.Join(n.o.DevRoot, pattern))
	if err != nil {
		return nil // the patterns are ours, and good
	}
	for i, path := range found {
		if rel, err := filepath.Rel(n.o.DevRoot, path); err == nil {
			found[i] = "/" + rel
		}
	}
	return found
}
