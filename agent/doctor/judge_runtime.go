package doctor

import (
	"fmt"
	"slices"
	"strings"
)

func judgeToolkit(f Facts) Finding {
	const name = "container-toolkit"
	hook, hasHook := f.Tools["nvidia-cdi-hook"]
	ctk, hasCTK := f.Tools["nvidia-ctk"]
	switch {
	case hasHook:
		return ok(name, "%s", hook)
	case hasCTK:
		return warn(name, ctk+", older than 1.17: it has no nvidia-cdi-hook", "update nvidia-container-toolkit, or name nvidia-ctk with --nvidia-cdi-hook-path")
	}
	return fail(name, "NVIDIA Container Toolkit is not installed: containers get the GPU, but not the driver's libraries",
		"install the package nvidia-container-toolkit on the node")
}

// judgeRuntime asks whether the runtime resolves CDI names, by which the agent
// gives devices. containerd has CDI since 1.7, off until 2.0; CRI-O since 1.23.
func judgeRuntime(f Facts) Finding {
	const name = "container-runtime"
	r := f.Runtime
	const without = "; or use --allocation=kubelet, which needs no CDI but ignores committed devices"
	seen := strings.TrimSpace(r.Name + " " + r.Version)
	switch {
	case r.Name == "":
		return fail(name, "neither containerd nor CRI-O was found", "in a container, mount the host's root and name it with --root")
	case r.Name == "cri-o":
		if r.Version != "" && less(r.Version, "1.23") {
			return fail(name, seen+" has no CDI", "update CRI-O to 1.23 or newer"+without)
		}
	case r.Version != "" && less(r.Version, "1.7"):
		return fail(name, seen+" has no CDI", "update containerd to 1.7 or newer, better 2.x"+without)
	case r.CDI != nil && !*r.CDI:
		return fail(name, seen+": CDI is turned off in "+r.Config, enableCDI(r)+without)
	case r.CDI == nil && r.Version != "" && less(r.Version, "2.0"):
		return fail(name, seen+": CDI is off unless it is turned on", enableCDI(r)+without)
	case r.CDI == nil && r.Version == "":
		return warn(name, seen+" of unknown version; its configuration does not say whether CDI is on", "ask containerd --version: 2.x is fine; with 1.7, "+enableCDI(r))
	}
	if r.CDIDirs != nil && !slices.ContainsFunc(r.CDIDirs, func(d string) bool { return sameRun(d) == sameRun(f.CDIDir) }) {
		return fail(name, fmt.Sprintf("%s reads CDI specifications from %s, the agent writes them to %s", seen, strings.Join(r.CDIDirs, " and "), f.CDIDir),
			"add the folder to cdi_spec_dirs, or start the agent with --cdi-dir")
	}
	return ok(name, "%s, with CDI", seen)
}

// sameRun lets /var/run and /run be the same folder, as they are.
func sameRun(dir string) string {
	return strings.TrimSuffix(strings.TrimPrefix(dir, "/var"), "/")
}

func enableCDI(r Runtime) string {
	plugin := "io.containerd.grpc.v1.cri"
	if r.Version != "" && !less(r.Version, "2.0") {
		plugin = "io.containerd.cri.v1.runtime"
	}
	file := r.Config
	if file == "" {
		file = "/etc/containerd/config.toml"
	}
	return fmt.Sprintf("set enable_cdi = true under [plugins.%q] in %s and restart containerd", plugin, file)
}

// judgeDefault reports whether NVIDIA's runtime is the default one. NVIDIA's
// device plugin does not find the driver where it is not; the agent needs no
// such runtime.
//
// NVIDIA/k8s-device-plugin#444 #478 #479 #23
func judgeDefault(f Facts) Finding {
	const name = "nvidia-runtime"
	r := f.Runtime
	switch {
	case r.NVIDIA == "":
		return ok(name, "none is configured, and the agent needs none: GPUs come by CDI")
	case r.Default == r.NVIDIA:
		return ok(name, "%s is the default runtime; the agent would not need it", r.NVIDIA)
	}
	return ok(name, "%s is configured and not the default; the agent needs neither", r.NVIDIA)
}

// judgeVisible looks for the way past the scheduler: where NVIDIA's runtime is
// the default one, an image with NVIDIA_VISIBLE_DEVICES=all sees every GPU of
// the node without asking for any. Many CUDA images have it.
//
// NVIDIA/k8s-device-plugin#87 #203 #342
func judgeVisible(f Facts) Finding {
	const name = "gpus-not-asked-for"
	where := f.Toolkit.Config
	if where == "" {
		where = "/etc/nvidia-container-runtime/config.toml"
	}
	const line = "accept-nvidia-visible-devices-envvar-when-unprivileged = false"
	const after = "; the agent gives devices by CDI and does not use the variable. NVIDIA's own plugin would then need deviceListStrategy volume-mounts or cdi-cri"
	r := f.Runtime
	switch {
	case r.NVIDIA == "":
		return ok(name, "no NVIDIA runtime: NVIDIA_VISIBLE_DEVICES in an image does nothing")
	case !f.Toolkit.EnvVar:
		return ok(name, "unprivileged containers cannot get GPUs through NVIDIA_VISIBLE_DEVICES")
	case r.Default == r.NVIDIA:
		return warn(name, "every image with NVIDIA_VISIBLE_DEVICES=all sees all GPUs of this node, also in pods that ask for none",
			"set "+line+" in "+where+", or make runc the default runtime"+after)
	}
	return warn(name, "pods with the runtime class of "+r.NVIDIA+" see all GPUs by NVIDIA_VISIBLE_DEVICES=all", "set "+line+" in "+where+after)
}

func judgeCgroup(f Facts) Finding {
	if f.CgroupV2 {
		return ok("cgroup", "v2")
	}
	return warn("cgroup", "v1: GPU memory limits by the driver need v2, and kubelets since 1.35 do not start on v1 unless told to", "boot with systemd.unified_cgroup_hierarchy=1 when the node is renewed")
}

func judgeMPS(f Facts) Finding {
	if path, there := f.Tools["nvidia-cuda-mps-control"]; there {
		return ok("mps", "%s", path)
	}
	return ok("mps", "nvidia-cuda-mps-control is not installed; only sharing with MPS needs it")
}
