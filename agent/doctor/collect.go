package doctor

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"berth.dev/berth/internal/input"
)

// Collect reads the facts of a node. What cannot be read counts as not found;
// most of it needs no privileges.
func Collect(ctx context.Context, o Options) Facts {
	o = o.withDefaults()
	t := tree{o.Root}
	f := Facts{Fake: o.Fake, CDIDir: o.CDIDir, MetricsURL: o.Metrics}
	f.Cards = t.cards()
	f.Modules = t.modules()
	f.Kernel = kernelVersion(t.text("/proc/driver/nvidia/version"))
	f.Release = strings.TrimSpace(t.text("/proc/sys/kernel/osrelease"))
	f.Library = t.library()
	f.Nodes = t.glob("/dev/nvidia*")
	f.Switch = len(t.glob("/proc/driver/nvidia-nvswitch/devices/*")) > 0
	f.Fabric = len(t.glob("/run/nvidia-fabricmanager/*")) > 0
	f.SecureBoot = t.secureBoot()
	if log, err := o.Command(ctx, "dmesg"); err == nil {
		f.Rejected, f.Xids = kernelLog(string(log))
	} else {
		f.Rejected, f.Xids = kernelLog(t.text("/var/log/dmesg"))
	}
	if o.Snapshot != nil {
		f.Asked = true
		f.Snapshot, f.Driver = o.Snapshot(ctx)
	}
	f.Tools = t.tools()
	f.Toolkit = t.toolkit()
	f.Runtime = t.runtime(ctx, o)
	f.CgroupV2 = t.exists("/sys/fs/cgroup/cgroup.controllers")
	f.Kubelet = t.kubelet(o.SocketPrefix)
	if o.Metrics != "" {
		f.MetricsCount, f.MetricsErr = scrape(ctx, o.Metrics)
	}
	return f
}

// tree is the host's file system, seen from here.
type tree struct{ root string }

func (t tree) path(name string) string { return filepath.Join(t.root, name) }

func (t tree) text(name string) string {
	data, err := input.ReadFile(t.path(name), input.State)
	if err != nil {
		return ""
	}
	return string(data)
}

func (t tree) exists(name string) bool {
	_, err := os.Lstat(t.path(name))
	return err == nil
}

// glob returns matching names as the host has them, sorted.
func (t tree) glob(pattern string) []string {
	found, _ := filepath.Glob(t.path(pattern)) // the patterns here are well formed
	for i, f := range found {
		if rel, err := filepath.Rel(t.root, f); err == nil {
			found[i] = "/" + rel
		}
	}
	return found
}

// cards lists the GPUs of vendor NVIDIA: PCI class 0x0300 or 0x0302.
func (t tree) cards() []Card {
	var out []Card
	for _, dir := range t.glob("/sys/bus/pci/devices/*") {
		class := strings.TrimSpace(t.text(dir + "/class"))
		if strings.TrimSpace(t.text(dir+"/vendor")) != "0x10de" || !strings.HasPrefix(class, "0x0300") && !strings.HasPrefix(class, "0x0302") {
			continue
		}
		c := Card{BusID: filepath.Base(dir)}
		if to, err := os.Readlink(t.path(dir + "/driver")); err == nil {
			c.Driver = filepath.Base(to)
		}
		out = append(out, c)
	}
	return out
}

// modules returns those that matter, with the modules that use each.
func (t tree) modules() map[string]string {
	matter := []string{"nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia_peermem", "nvidia_fs", "gdrdrv", "nouveau", "vfio_pci"}
	out := map[string]string{}
	for line := range strings.Lines(t.text("/proc/modules")) {
		f := strings.Fields(line) // name size users by state address
		if len(f) >= 4 && slices.Contains(matter, f[0]) {
			out[f[0]] = strings.Trim(f[3], ",-")
		}
	}
	return out
}

var versionInLine = regexp.MustCompile(`(?m)^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s`)

// kernelVersion reads /proc/driver/nvidia/version, of both the open and the
// proprietary kernel module.
func kernelVersion(text string) string {
	if m := versionInLine.FindStringSubmatch(text + "\n"); m != nil {
		return m[1]
	}
	return ""
}

// libraryDirs are where distributions and driver containers put libraries.
var libraryDirs = []string{
	"/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib", "/usr/local/nvidia/lib64",
	"/home/kubernetes/bin/nvidia/lib64", "/run/nvidia/driver/usr/lib64", "/run/nvidia/driver/usr/lib/x86_64-linux-gnu", "/opt/nvidia/lib64",
}

// library returns the version of libnvidia-ml.so.1, which is in the name of the
// file that it links to, or else that of the newest file.
func (t tree) library() string {
	const prefix = "libnvidia-ml.so."
	newest := ""
	for _, dir := range libraryDirs {
		if to, err := os.Readlink(t.path(dir + "/" + prefix + "1")); err == nil {
			if v := strings.TrimPrefix(filepath.Base(to), prefix); strings.Contains(v, ".") {
				return v
			}
		}
		for _, path := range t.glob(dir + "/" + prefix + "*.*") {
			if v := strings.TrimPrefix(filepath.Base(path), prefix); less(newest, v) {
				newest = v
			}
		}
	}
	return newest
}

// secureBoot reads the firmware's variable: four bytes of attributes, one of value.
func (t tree) secureBoot() bool {
	v := t.text("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c")
	return len(v) == 5 && v[4] == 1
}

var xidInLine = regexp.MustCompile(`NVRM: Xid \((PCI:[0-9a-fA-F:.]+)[^)]*\): (\d+)`)

// kernelLog finds what the kernel said of NVIDIA's module: the line by which it
// was refused, and the Xids, each GPU and number once.
func kernelLog(text string) (rejected string, xids []string) {
	for line := range strings.Lines(text) {
		if m := xidInLine.FindStringSubmatch(line); m != nil {
			if x := m[2] + " on " + strings.TrimPrefix(m[1], "PCI:"); !slices.Contains(xids, x) {
				xids = append(xids, x)
			}
		}
		low := strings.ToLower(line)
		if strings.Contains(low, "nvidia") && (strings.Contains(low, "key was rejected") || strings.Contains(low, "unsigned module is rejected") ||
			strings.Contains(low, "lockdown") && strings.Contains(low, "restricted")) {
			rejected = strings.TrimSpace(line)
		}
	}
	return rejected, xids
}

// tools looks for programs where containers of NVIDIA's and packages put them.
func (t tree) tools() map[string]string {
	out := map[string]string{}
	for _, name := range []string{"nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-runtime", "nvidia-container-cli", "nvidia-smi", "nvidia-cuda-mps-control"} {
		for _, dir := range []string{"/usr/bin", "/usr/local/bin", "/bin", "/usr/local/nvidia/toolkit", "/usr/local/nvidia/bin", "/opt/nvidia/bin", "/run/nvidia/driver/usr/bin", "/home/kubernetes/bin/nvidia/bin"} {
			if t.exists(dir + "/" + name) {
				out[name] = dir + "/" + name
				break
			}
		}
	}
	return out
}
