package real

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func tree(t *testing.T, files map[string]string) host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return host{root}
}

func TestHost(t *testing.T) {
	h := tree(t, map[string]string{
		"sys/bus/pci/devices/0000:1a:00.0/numa_node":  "1\n",
		"sys/bus/pci/devices/0000:1a:00.0/class":      "0x030200\n",
		"sys/bus/pci/devices/10000:01:00.0/numa_node": "0\n",
		"sys/bus/pci/devices/0000:1b:00.0/numa_node":  "-1\n",
		"proc/driver/nvidia-caps/mig-minors":          "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi11/access 90\n",
	})
	for bus, want := range map[string]int{"00000000:1A:00.0": 1, "10000:01:00.0": 0, "00000000:1B:00.0": -1, "00000000:FF:00.0": -1} {
		if got := h.numaNode(bus); got != want {
			t.Errorf("numaNode(%s) = %d, want %d", bus, got, want)
		}
	}
	if got := h.class("00000000:1A:00.0"); got != 0x0302 {
		t.Errorf("class = %#x, want 0x302", got)
	}
	got, err := h.migNodes(0, 1, 0)
	if want := []string{"/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("migNodes(0, 1, 0) = %v, %v, want %v", got, err, want)
	}
	if _, err := h.migNodes(0, 11, 0); err == nil || !strings.Contains(err.Error(), "gpu0/gi11/ci0/access") {
		t.Errorf("migNodes of a missing compute instance: %v, want the line that is missing", err)
	}
	if _, err := (host{t.TempDir()}).migNodes(0, 1, 0); err == nil {
		t.Error("migNodes without the driver's file gives no error")
	}
}
