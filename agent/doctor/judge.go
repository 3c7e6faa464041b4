package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Judge turns facts into findings, in a fixed order. It is pure.
//
// On a node of fake GPUs only what those need is judged.
func Judge(f Facts) []Finding {
	var out []Finding
	if f.Fake {
		out = append(out, ok("gpus", "fake GPUs: nothing from NVIDIA is needed"))
	} else {
		out = append(out, judgeCards(f), judgeModule(f), judgeLibrary(f))
	}
	if f.Asked {
		out = append(out, judgeDriver(f))
	}
	if !f.Fake {
		out = append(out, judgeModules(f)...)
		out = append(out, judgeSwitch(f)...)
		out = append(out, judgeMIG(f)...)
		out = append(out, judgeXids(f)...)
		out = append(out, judgeToolkit(f))
	}
	out = append(out, judgeRuntime(f))
	if !f.Fake {
		out = append(out, judgeDefault(f), judgeVisible(f))
	}
	out = append(out, judgeCgroup(f), judgeKubelet(f), judgePlugin(f), judgePodResources(f))
	if !f.Fake {
		out = append(out, judgeMPS(f))
	}
	if f.MetricsURL != "" {
		out = append(out, judgeMetrics(f))
	}
	return out
}

func ok(name, format string, args ...any) Finding {
	return Finding{Name: name, Status: OK, Seen: fmt.Sprintf(format, args...)}
}

func warn(name, seen, do string) Finding {
	return Finding{Name: name, Status: Warn, Seen: seen, Do: do}
}

func fail(name, seen, do string) Finding {
	return Finding{Name: name, Status: Fail, Seen: seen, Do: do}
}

// gpus writes "1 GPU" and "2 GPUs".
func gpus(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

func judgeCards(f Facts) Finding {
	const name = "gpus"
	by := map[string]int{}
	for _, c := range f.Cards {
		by[c.Driver]++
	}
	switch {
	case len(f.Cards) == 0 && len(f.Snapshot.GPUs) > 0:
		return ok(name, "%s by the driver, none on the PCI bus that is seen here", gpus(len(f.Snapshot.GPUs)))
	case len(f.Cards) == 0:
		return fail(name, "no NVIDIA GPU on the PCI bus",
			"see lspci -d 10de: on the host; in a virtual machine, pass a GPU through; on a node without GPUs, keep the agent away with a node selector")
	case by["nouveau"] > 0:
		return fail(name, gpus(by["nouveau"])+" bound to the nouveau driver",
			"write \"blacklist nouveau\" and \"options nouveau modeset=0\" to /etc/modprobe.d/nouveau.conf, rebuild the initramfs, restart the node")
	case by["vfio-pci"] > 0:
		return warn(name, fmt.Sprintf("%d of %s bound to vfio-pci, for virtual machines", by["vfio-pci"], gpus(len(f.Cards))),
			"containers cannot use them; bind them to the nvidia driver if they should")
	case by[""] > 0 && f.Kernel != "":
		return fail(name, fmt.Sprintf("%d of %s without a kernel driver", by[""], gpus(len(f.Cards))),
			"see dmesg | grep NVRM: the module may not know this GPU, or need its open variant (Blackwell does)")
	}
	return ok(name, "%s on the PCI bus", gpus(len(f.Cards)))
}

// judgeModule names the kernel, too: a module is built for one.
func judgeModule(f Facts) Finding {
	out := module(f)
	if f.Release != "" {
		out.Seen += " (Linux " + f.Release + ")"
	}
	return out
}

func module(f Facts) Finding {
	const name = "kernel-module"
	_, nouveau := f.Modules["nouveau"]
	switch {
	case f.Kernel != "":
		return ok(name, "nvidia %s", f.Kernel)
	case f.answers():
		return ok(name, "the driver answers")
	case f.Rejected != "":
		return fail(name, "the kernel refused the nvidia module: "+f.Rejected,
			"Secure Boot wants a signed module: enroll the key of the driver's package with mokutil --import and restart, or turn Secure Boot off")
	case nouveau:
		return fail(name, "nvidia is not loaded, nouveau is", "blacklist nouveau, rebuild the initramfs and restart the node")
	case f.SecureBoot:
		return fail(name, "nvidia is not loaded; Secure Boot is on",
			"run modprobe nvidia; if it says \"Key was rejected by service\", sign the module or enroll its key with mokutil --import")
	case f.Library != "":
		return fail(name, "nvidia is not loaded, though the driver's library "+f.Library+" is installed",
			"run modprobe nvidia and look at dmesg; after a kernel update the module has to be built again (dkms autoinstall)")
	}
	return fail(name, "nvidia is not loaded", "install the NVIDIA driver on this node, then modprobe nvidia")
}

// judgeLibrary finds the two halves of a driver that was updated under the
// node's feet: NVML then says "Driver/library version mismatch".
func judgeLibrary(f Facts) Finding {
	const name = "driver-library"
	switch {
	case f.Library == "" && f.answers():
		return ok(name, "found by the agent, %s", f.Snapshot.Driver)
	case f.Library == "":
		return fail(name, "libnvidia-ml.so.1 is not in any of the usual directories",
			"install the driver's user space (its package or driver container); if it is elsewhere, name the directory with --container-driver-root")
	case f.Kernel != "" && f.Kernel != f.Library:
		return fail(name, fmt.Sprintf("library %s, kernel module %s: the driver was changed since the module was loaded", f.Library, f.Kernel),
			"drain the node and restart it; or stop all users of the GPUs, rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia, and modprobe nvidia")
	}
	return ok(name, "libnvidia-ml.so.%s", f.Library)
}

// answers says that the driver was asked and has answered.
func (f Facts) answers() bool { return f.Asked && f.Driver == nil && f.Snapshot.Failed == "" }

func judgeDriver(f Facts) Finding {
	const name = "driver"
	s := f.Snapshot
	why := s.Failed
	if f.Driver != nil {
		why = f.Driver.Error()
	}
	if why != "" {
		do := "see the findings above; then nvidia-smi on the host"
		if f.Kernel != "" && f.Kernel == f.Library {
			do = "the driver works on the host, but the agent does not see it: mount the host's root into its container and name it with --container-driver-root (no nvidia runtime is needed)"
		}
		return fail(name, why, do)
	}
	var lost []string
	for _, g := range s.GPUs {
		if g.Lost {
			lost = append(lost, g.UUID)
		}
	}
	switch {
	case len(s.GPUs) == 0:
		return fail(name, "the driver shows no GPU", "see dmesg | grep NVRM")
	case len(lost) > 0:
		return fail(name, fmt.Sprintf("%d of %s lost: %s", len(lost), gpus(len(s.GPUs)), strings.Join(lost, ", ")),
			"drain the node and restart it; a GPU that is lost again (Xid 79) has a fault of power, heat or seat")
	case len(s.GPUs) < len(f.Cards) && !s.Fake:
		return warn(name, fmt.Sprintf("the driver shows %d of the %s on the bus", len(s.GPUs), gpus(len(f.Cards))), "see dmesg | grep NVRM for the one that is missing")
	}
	return ok(name, "%s, CUDA %s, %s", s.Driver, s.CUDA, products(f))
}

// products lists the models and how many there are of each.
func products(f Facts) string {
	n := map[string]int{}
	for _, g := range f.Snapshot.GPUs {
		n[g.Product]++
	}
	var out []string
	for _, p := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%d x %s", n[p], p))
	}
	return strings.Join(out, ", ")
}

// judgeModules looks at what follows from a loaded driver; without one it would
// only repeat that.
func judgeModules(f Facts) []Finding {
	const name = "kernel-modules"
	if f.Kernel == "" {
		return nil
	}
	if _, loaded := f.Modules["nvidia_uvm"]; !loaded {
		return []Finding{fail(name, "nvidia_uvm is not loaded: CUDA cannot start", "run nvidia-modprobe -u -c0, or load nvidia_uvm at boot (/etc/modules-load.d)"), judgeNodes(f)}
	}
	return []Finding{ok(name, "%s", strings.Join(slices.Sorted(maps.Keys(f.Modules)), ", ")), judgeNodes(f)}
}

func judgeNodes(f Facts) Finding {
	const name = "device-nodes"
	var missing []string
	for _, n := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm"} {
		if !slices.Contains(f.Nodes, n) {
			missing = append(missing, n)
		}
	}
	for _, g := range f.Snapshot.GPUs {
		if n := fmt.Sprintf("/dev/nvidia%d", g.Minor); !slices.Contains(f.Nodes, n) && !g.Lost {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		return fail(name, "missing: "+strings.Join(missing, ", "), "run nvidia-modprobe -u -c0 (or nvidia-smi once, as root); start nvidia-persistenced so that they stay")
	}
	return ok(name, "%s", strings.Join(f.Nodes, ", "))
}

// judgeSwitch knows machines whose GPUs are joined by NVSwitches: without the
// Fabric Manager every CUDA program there ends with error 802.
func judgeSwitch(f Facts) []Finding {
	if !f.Switch {
		return nil
	}
	if !f.Fabric {
		return []Finding{fail("fabric-manager", "NVSwitches, and no Fabric Manager", "install nvidia-fabricmanager in exactly the driver's version, and systemctl enable --now nvidia-fabricmanager")}
	}
	return []Finding{ok("fabric-manager", "running")}
}

// judgeMIG says what would keep a MIG mode from changing: on Ampere it changes
// by a reset, which needs the GPU to itself. Newer GPUs change it at once.
//
// NVIDIA/mig-parted#181
func judgeMIG(f Facts) []Finding {
	const name = "mig"
	capable, ampere, pending := 0, 0, 0
	for _, g := range f.Snapshot.GPUs {
		if !g.MIGCapable {
			continue
		}
		capable++
		if g.ComputeMajor == 8 {
			ampere++
		}
		if g.MIGPending {
			pending++
		}
	}
	_, drm := f.Modules["nvidia_drm"]
	switch {
	case capable == 0:
		return nil
	case pending > 0:
		return []Finding{warn(name, "the MIG mode of "+gpus(pending)+" changes at its next reset", "stop what uses it (monitoring too), then nvidia-smi --gpu-reset -i N; or restart the node")}
	case ampere > 0 && drm:
		return []Finding{warn(name, "nvidia_drm is loaded: the MIG mode of "+gpus(ampere)+" cannot be changed while it is", "if MIG is to be switched on or off here: rmmod nvidia_drm nvidia_modeset, or restart the node after the change")}
	}
	return []Finding{ok(name, "%s can be partitioned with MIG", gpus(capable))}
}

func judgeXids(f Facts) []Finding {
	if len(f.Xids) == 0 {
		return nil
	}
	return []Finding{warn("xids", "the kernel's log has Xid "+strings.Join(f.Xids, ", "), "find what each means in NVIDIA's Xid catalog; the agent allocates no GPU with a fatal one until it has recovered")}
}
