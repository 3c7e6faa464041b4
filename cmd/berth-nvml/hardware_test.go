package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth.dev/berth/cmd/berth-nvml/fakelib"
)

// TestHardwareChecks runs the checks for machines with a GPU on the stand-in,
// so that they do not fall apart between two such machines: they have to pass
// where nvidia-smi agrees, and to fail where it does not.
func TestHardwareChecks(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lib.Write(t, "driver 570.124.06 12080", fakelib.GPU(0, "temp=40 power=80000"), fakelib.GPU(1, "temp=41 power=80000"), "link 0 1 18")
	dir := t.TempDir()
	checks := filepath.Join(dir, "checks")
	build := exec.Command("go", "test", "-c", "-tags", "hardware", "-o", checks, "./hardware")
	build.Env = append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS=-g -O2 -Wno-deprecated-declarations", "CGO_LDFLAGS=-g -O2 -Wl,-z,lazy")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the checks: %v\n%s", err, out)
	}
	const smi = `#!/bin/sh
case "$*" in
*uuid*) echo "GPU-0, NVIDIA H200, 00000000:1A:00.0, 570.124.06, 9.0"; echo "GPU-1, NVIDIA H200, 00000000:1B:00.0, 570.124.06, 9.0" ;;
*temperature*) echo "TEMP, 80.00, 700.00, 1980, 3201, 0, [N/A]"; echo "41, 80.00, 700.00, 1980, 3201, 0, [N/A]" ;;
esac
`
	run := func(temperature string) (string, error) {
		if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(strings.ReplaceAll(smi, "TEMP", temperature)), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(checks, "-test.v", "-test.run", "GPUsAre|Readings|Functions|GPM|Tables|NVLink|Events")
		cmd.Env = append(os.Environ(), append(lib.Env(), "BERTH_NVML="+program, "PATH="+dir+":"+os.Getenv("PATH"))...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("42"); err != nil || strings.Count(out, "--- PASS") != 7 {
		t.Errorf("where nvidia-smi agrees: %v, want 7 checks that pass:\n%s", err, out)
	}
	if out, err := run("90"); err == nil || !strings.Contains(out, "temperature 40, nvidia-smi says 90") {
		t.Errorf("where nvidia-smi shows 90 C: %v, want a failure that says so:\n%s", err, out)
	}
}
