// Package hardware_test checks that the checks for machines with a GPU end
// with a clear message on machines without one.
package hardware_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bare is a PATH with what the script needs to get as far as the GPU, and the
// given nvidia-smi; "" is none.
func bare(t *testing.T, smi string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sh", "dirname"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("skipped: no %s here", name)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if smi != "" {
		if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n"+smi+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRunWithoutAGPU(t *testing.T) {
	for name, tt := range map[string]struct{ smi, says string }{
		"no driver":                      {"", "there is no nvidia-smi on the PATH"},
		"a driver without a GPU":         {"echo No devices were found", "nvidia-smi shows no GPU: No devices were found"},
		"a driver that was just updated": {"echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "nvidia-smi shows no GPU"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			run := exec.Command("sh", "run.sh")
			run.Env = []string{"PATH=" + bare(t, tt.smi), "BERTH_OUT=" + out}
			text, err := run.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(text), tt.says) {
				t.Errorf("run.sh: %v, want code 3 and %q:\n%s", err, tt.says, text)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("an output was kept, though nothing was checked")
			}
		})
	}
}
