package cdi

import (
	"os"
	"path/filepath"
	"slices"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/agent/allocation/ledger"
)

// controlNodes belong to the driver and not to one GPU. A container gets those
// that the node has.
var controlNodes = []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}

// nodes returns the device nodes of devices, after the driver's own.
func (b *Builder) nodes(devices []ledger.Device) []string {
	var out []string
	for _, path := range controlNodes {
		if b.exists(path) {
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
		g, m, ok := b.Snapshot.Find(devices[i].UUID)
		if !ok {
			continue
		}
		if add(g.Nodes); m != nil {
			add(g.MIGNodes[m.UUID])
		}
	}
	return out
}

// exists reports whether the node has a file in dev.
func (b *Builder) exists(path string) bool {
	_, err := os.Stat(filepath.Join(b.DevRoot, path))
	return err == nil
}

// host returns a path in dev as the kubelet and the runtime see it.
func (b *Builder) host(path string) string {
	if b.Settings.DevRoot == "" {
		return path
	}
	return filepath.Join(b.Settings.DevRoot, path)
}

// extras returns what the configuration gives containers besides GPUs, where they
// get them by CDI: edits by class and name, such as "gdrcopy" and "all". What the
// node does not have is left out, except an IMEX channel that is required: for
// that, the runtime reports that it is missing.
func (b *Builder) extras() map[string]map[string]*specs.ContainerEdits {
	out := map[string]map[string]*specs.ContainerEdits{}
	add := func(class, name string, nodes []string, mounts ...string) {
		if len(nodes) == 0 {
			return
		}
		e := b.edits(injection{nodes: nodes})
		for _, m := range mounts {
			e.Mounts = append(e.Mounts, &specs.Mount{HostPath: m, ContainerPath: m, Options: []string{"ro", "nosuid", "nodev", "bind"}})
		}
		if out[class] == nil {
			out[class] = map[string]*specs.ContainerEdits{}
		}
		out[class][name] = e
	}
	for _, id := range b.channels() {
		if path := imexRoot + id; b.exists(path) || b.Settings.IMEX.Required {
			add("imex-channel", id, []string{path})
		}
	}
	if b.Settings.GDRCopy {
		add("gdrcopy", "all", b.glob("/dev/gdrdrv"))
	}
	if b.Settings.GDS {
		add("gds", "all", b.glob("/dev/nvidia-fs*"), "/run/udev")
	}
	if b.Settings.MOFED {
		add("mofed", "all", slices.Concat(b.glob("/dev/infiniband/uverbs*"), b.glob("/dev/infiniband/rdma_cm")))
	}
	return out
}

// glob returns the paths in dev that match a pattern, sorted.
func (b *Builder) glob(pattern string) []string {
	found, err := filepath.Glob(filepath.Join(b.DevRoot, pattern))
	if err != nil {
		return nil // all patterns are constants, and valid
	}
	for i, path := range found {
		if rel, err := filepath.Rel(b.DevRoot, path); err == nil {
			found[i] = "/" + rel
		}
	}
	return found
}
