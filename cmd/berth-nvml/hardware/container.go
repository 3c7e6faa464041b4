package hardware

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"
)

// Bundle writes a container for runc into dir. Its only program is a program of this machine
// with the libraries that it is linked with, and it has one device of a CDI specification:
// what it sees of the driver comes from the specification and its hooks alone.
func Bundle(dir, program, cgroup string, spec *specs.Spec, device string, env []string) error {
	if err := rootFolder(filepath.Join(dir, "rootfs"), program); err != nil {
		return err
	}
	container := &oci.Spec{
		Version: "1.0.2", Hostname: "berth-hardware", Root: &oci.Root{Path: "rootfs"},
		Process: &oci.Process{Args: []string{"/program"}, Cwd: "/", Env: append([]string{"PATH=/usr/bin"}, env...)},
		Mounts: []oci.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}},
		},
		Linux: &oci.Linux{
			CgroupsPath: cgroup,
			Namespaces:  []oci.LinuxNamespace{{Type: oci.PIDNamespace}, {Type: oci.MountNamespace}, {Type: oci.IPCNamespace}, {Type: oci.UTSNamespace}, {Type: oci.NetworkNamespace}},
			Resources:   &oci.LinuxResources{Devices: []oci.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
		},
	}
	if err := inject(container, spec, device); err != nil {
		return err
	}
	data, err := json.Marshal(container)
	if err != nil {
		return fmt.Errorf("write the container's configuration: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}

// inject applies to a container what a runtime does: the edits of the device and those that
// all devices share.
func inject(container *oci.Spec, spec *specs.Spec, device string) error {
	for _, d := range spec.Devices {
		if d.Name == device {
			return errors.Join(
				(&cdi.ContainerEdits{ContainerEdits: &d.ContainerEdits}).Apply(container),
				(&cdi.ContainerEdits{ContainerEdits: &spec.ContainerEdits}).Apply(container),
			)
		}
	}
	return fmt.Errorf("the CDI specification has no device %s", device)
}

// rootFolder fills a container's root folder.
func rootFolder(root, program string) error {
	for _, name := range []string{"dev", "proc", "sys", "etc", "tmp", "usr/bin"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return err
		}
	}
	out, err := exec.Command("ldd", program).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ldd %s: %w: %s", program, err, out)
	}
	files := map[string]string{program: "/program"}
	for word := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(word, "/") {
			files[word] = word
		}
	}
	for from, to := range files {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		to = filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// Links returns the symbolic links that the hooks of a specification have to make in a
// container: the path of each, and what it points to.
func Links(spec *specs.Spec) map[string]string {
	out := map[string]string{}
	for _, h := range spec.ContainerEdits.Hooks {
		for i, a := range h.Args {
			link, joined := strings.CutPrefix(a, "--link=")
			if a == "--link" && i+1 < len(h.Args) {
				link, joined = h.Args[i+1], true
			}
			if target, path, ok := strings.Cut(link, "::"); joined && ok {
				out[path] = target
			}
		}
	}
	return out
}

// Hooks returns the programs that a specification has run, and what is wrong with each: nil is
// nothing.
func Hooks(spec *specs.Spec) map[string]error {
	out := map[string]error{}
	hooks := slices.Clone(spec.ContainerEdits.Hooks)
	for _, d := range spec.Devices {
		hooks = append(hooks, d.ContainerEdits.Hooks...)
	}
	for _, h := range hooks {
		info, err := os.Stat(h.Path)
		if err == nil && (info.IsDir() || info.Mode()&0o111 == 0) {
			err = fmt.Errorf("%s is not an executable file, but %v", h.Path, info.Mode())
		}
		out[h.Path] = err
	}
	return out
}
