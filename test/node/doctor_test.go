//go:build linux

package node_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDoctor has `berth doctor node` examine a real node: its kernel and modules,
// its containerd's own configuration, its kubelet and who offers GPUs to it. The one
// GPU on its PCI bus is put there for it, and has no driver.
//
// rows: GS-06
func TestDoctor(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newWholeNode(t, a100, 4)
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	root := hostRoot(t)
	const good = "ok    container-runtime   containerd 2.3.3, with CDI"
	n.finds(t, root, 1,
		"ok    gpus                1 GPU on the PCI bus",
		"fail  kernel-module       nvidia is not loaded (Linux "+release+")",
		good,
		"ok    kubelet             accepts device plugins",
		"ok    device-plugin       the kubelet has 4 x nvidia.com/gpu",
		"ok    pod-resources       reports which pods use which devices")

	card := filepath.Join(root, "sys/bus/pci/devices/0000:1a:00.0")
	if err := os.Symlink("../../../../bus/pci/drivers/nouveau", card+"/driver"); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(root, "etc/containerd/config.toml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	off := strings.Replace(string(text), "cdi_spec_dirs", "enable_cdi = false\n  cdi_spec_dirs", 1)
	if err := os.WriteFile(config, []byte(off), 0o600); err != nil {
		t.Fatal(err)
	}
	n.killAgent(t)
	n.offersWithoutAgent(t, 0)
	n.finds(t, root, 1,
		"fail  gpus                1 GPU bound to the nouveau driver",
		"fail  container-runtime   ",
		"warn  device-plugin       the kubelet remembers 4 x nvidia.com/gpu, 160 x nvidia.com/gpu-memory, but no plugin serves it")
}

// hostRoot is a view of the node with a GPU on its PCI bus, and with containerd's
// configuration where a distribution has it.
func hostRoot(t *testing.T) string {
	t.Helper()
	root := workDir + "/host"
	card := filepath.Join(root, "sys/bus/pci/devices/0000:1a:00.0")
	for _, dir := range []string{card, root + "/etc/containerd"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"proc", "dev", "run", "var", "usr"} {
		if err := os.Symlink("/"+dir, filepath.Join(root, dir)); err != nil {
			t.Fatal(err)
		}
	}
	config, err := os.ReadFile(workDir + "/containerd.toml")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		card + "/vendor": "0x10de\n", card + "/class": "0x030200\n", root + "/etc/containerd/config.toml": string(config),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// finds runs the check until it says all of the lines, and ends with the code.
func (n *node) finds(t *testing.T, root string, code int, want ...string) {
	t.Helper()
	eventually(t, patience, "berth doctor node says how the node is", func() error {
		cmd := exec.Command(program("berth-agent"), "doctor", "--root", root, "--runtime", "containerd://2.3.3", "--cdi-dir", cdiDir, "--metrics", metricsURL)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != code {
			t.Fatalf("exit code %d, %v:\n%s", cmd.ProcessState.ExitCode(), err, out)
		}
		for _, line := range want {
			if !strings.Contains(string(out), line) {
				return &notYet{"no line " + line + "\n" + string(out)}
			}
		}
		return nil
	})
}
