package doctor

import (
	"context"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// toolkit reads the configuration of NVIDIA's container runtime. Without a
// file, or a line in it, a container gets what its variable names.
//
// Source: its accept-nvidia-visible-devices-envvar-when-unprivileged, true
// unless set.
func (t tree) toolkit() Toolkit {
	out := Toolkit{EnvVar: true}
	for _, path := range []string{"/etc/nvidia-container-runtime/config.toml", "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"} {
		if !t.exists(path) {
			continue
		}
		out.Config = path
		out.EnvVar = parseTOML(t.text(path))[""]["accept-nvidia-visible-devices-envvar-when-unprivileged"] != "false"
		return out
	}
	return out
}

// containerdConfigs are the configuration files of containerd and of the
// distributions that bring their own, the first found holds.
var containerdConfigs = []string{
	"/var/lib/rancher/k3s/agent/etc/containerd/config.toml", "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
	"/var/snap/microk8s/current/args/containerd.toml", "/etc/k0s/containerd.toml", "/etc/containerd/config.toml",
}

var digits = regexp.MustCompile(`\d+\.\d+(?:\.\d+)?`)

// runtime finds the container runtime: by what the node's status says, or else
// by configuration and socket.
func (t tree) runtime(ctx context.Context, o Options) Runtime {
	name, version, _ := strings.Cut(o.Runtime, "://")
	crio := t.exists("/run/crio/crio.sock") || t.exists("/var/run/crio/crio.sock")
	if name == "cri-o" || name == "" && crio {
		return t.crio(ctx, o, version)
	}
	r := Runtime{Version: version}
	for _, path := range containerdConfigs {
		if t.exists(path) {
			r.Config = path
			break
		}
	}
	if name == "" && r.Config == "" && !t.exists("/run/containerd/containerd.sock") {
		return r
	}
	r.Name = "containerd"
	if r.Version == "" {
		out, _ := o.Command(ctx, "containerd", "--version") // unknown is an answer too
		r.Version = lastVersion(string(out))
	}
	t.containerd(&r)
	return r
}

// lastVersion finds the version in a line such as
// "containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7".
func lastVersion(line string) string {
	for word := range strings.FieldsSeq(line) {
		if v := digits.FindString(word); v != "" && strings.HasPrefix(strings.TrimPrefix(word, "v"), v) {
			return v
		}
	}
	return ""
}

// containerd reads the configuration and what it imports.
func (t tree) containerd(r *Runtime) {
	s := parseTOML(t.text(r.Config))
	for _, pattern := range list(s[""]["imports"]) {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(r.Config), pattern)
		}
		for _, path := range t.glob(pattern) {
			s.merge(parseTOML(t.text(path)))
		}
	}
	// Version 2 of the file has one plugin for all, version 3 several.
	for _, plugin := range []string{"plugins/io.containerd.grpc.v1.cri", "plugins/io.containerd.cri.v1.runtime", "plugins/cri"} {
		if on, err := strconv.ParseBool(s[plugin]["enable_cdi"]); err == nil {
			r.CDI = &on
		}
		if dirs := list(s[plugin]["cdi_spec_dirs"]); dirs != nil {
			r.CDIDirs = dirs
		}
		if name := s[plugin+"/containerd"]["default_runtime_name"]; name != "" {
			r.Default = name
		}
		for table, values := range s {
			name, ok := strings.CutPrefix(table, plugin+"/containerd/runtimes/")
			if !ok || !isNVIDIA(values["BinaryName"]) {
				continue
			}
			if name, ok = strings.CutSuffix(name, "/options"); ok && (r.NVIDIA == "" || name < r.NVIDIA) {
				r.NVIDIA = name
			}
		}
	}
}

// isNVIDIA knows nvidia-container-runtime and its variants .cdi and .legacy.
func isNVIDIA(binary string) bool {
	return strings.HasPrefix(filepath.Base(binary), "nvidia-container-runtime")
}

// crio reads CRI-O's file and its folder of further files, later ones win.
func (t tree) crio(ctx context.Context, o Options, version string) Runtime {
	r := Runtime{Name: "cri-o", Version: version}
	if r.Version == "" {
		out, _ := o.Command(ctx, "crio", "--version")
		r.Version = digits.FindString(string(out))
	}
	s := settings{}
	for _, path := range append([]string{"/etc/crio/crio.conf"}, t.glob("/etc/crio/crio.conf.d/*")...) {
		if t.exists(path) {
			r.Config = path
			s.merge(parseTOML(t.text(path)))
		}
	}
	r.Default = s["crio/runtime"]["default_runtime"]
	r.CDIDirs = list(s["crio/runtime"]["cdi_spec_dirs"])
	for table, values := range s {
		if name, ok := strings.CutPrefix(table, "crio/runtime/runtimes/"); ok && isNVIDIA(values["runtime_path"]) && (r.NVIDIA == "" || name < r.NVIDIA) {
			r.NVIDIA = name
		}
	}
	return r
}

// less compares versions number by number; "" is before all.
func less(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; i < max(len(x), len(y)); i++ {
		var m, n int
		if i < len(x) {
			m, _ = strconv.Atoi(x[i])
		}
		if i < len(y) {
			n, _ = strconv.Atoi(y[i])
		}
		if m != n {
			return m < n
		}
	}
	return false
}
