// Package hardware_test checks that the checks for machines with a GPU end
// with a clear message on machines without one.
package hardware_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// checked runs run.sh on a copy of its folder, with checks that stand in for the real
// ones.
func checked(t *testing.T, checks string, env ...string) (code int, text, out, result string) {
	t.Helper()
	root, bin := t.TempDir(), t.TempDir()
	for path, body := range map[string]string{
		filepath.Join(root, "bin", "berth-hardware.test"): checks, filepath.Join(root, "bin", "berth-nvml"): "true", filepath.Join(root, "bin", "berth-agent"): "true",
		filepath.Join(bin, "nvidia-smi"): `echo 'NVIDIA H200 "x"'`, filepath.Join(bin, "go"): "echo /nowhere", filepath.Join(bin, "git"): "echo abc",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("run.sh")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "test", "hardware", "run.sh")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, script, 0o755); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(root, "out.txt")
	run := exec.Command("sh", path)
	run.Env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "BERTH_OUT=" + kept}, env...)
	said, err := run.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(kept)
	if err != nil {
		t.Fatalf("nothing is kept: %v\n%s", err, said)
	}
	forPrograms, err := os.ReadFile(kept + ".json")
	if err != nil {
		t.Fatalf("nothing is kept for programs: %v\n%s", err, said)
	}
	return run.ProcessState.ExitCode(), string(said), string(raw), string(forPrograms)
}

func TestTheResultForPrograms(t *testing.T) {
	code, said, kept, raw := checked(t, `echo "=== RUN   TestA"; echo "--- PASS: TestA (0.1s)"; echo "--- FAIL: TestB (0.1s)"; echo '    c_test.go:7: not run: there is no "C"	on the PATH \ here'; echo "--- SKIP: TestC (0.0s)"; echo "    d_test.go:9: a log"; echo "--- PASS: TestD (0.0s)"; echo "--- SKIP: TestE (0.0s)"; exit 1`, "BERTH_LOAD=0")
	var got struct {
		GPU                     string
		Load, MIG               bool
		Exit                    int
		Passed, Failed, Skipped []string
		NotRun                  map[string]string
	}
	if err := json.Unmarshal([]byte(raw), &got); err != nil {
		t.Fatalf("%v: %s\n%s", err, raw, said)
	}
	if code != 1 || got.Exit != 1 || got.GPU != "NVIDIA H200 x" || got.Load || got.MIG ||
		!slices.Equal(got.Passed, []string{"A", "D"}) || !slices.Equal(got.Failed, []string{"B"}) || !slices.Equal(got.Skipped, []string{"C", "E", "RealGPU"}) {
		t.Errorf("run.sh ends with %d and keeps %+v of %s", code, got, raw)
	}
	if want := map[string]string{"C": `there is no "C" on the PATH \ here`, "E": "", "RealGPU": "bin/berth-node.test is not built: it needs root, runc and what tools/node.sh builds"}; !maps.Equal(got.NotRun, want) {
		t.Errorf("why checks have not run: %q, want %q, of %s", got.NotRun, want, raw)
	}
	if !strings.Contains(kept, "not run: there is no \"C\"") {
		t.Errorf("the output does not say why a check has not run:\n%s", kept)
	}
}

func TestTheLimitIsNamedAndTheChecksMayEndWell(t *testing.T) {
	code, said, kept, raw := checked(t, `trap 'echo "MIG is as it was"; exit 1' TERM; echo "=== RUN   TestSlow"; while :; do sleep 0.1; done`, "BERTH_LIMIT=1")
	for _, want := range []string{"MIG is as it was", "--- FAIL: TestSlow: the time limit of 1s (BERTH_LIMIT) was up in TestSlow; later checks have not run"} {
		if !strings.Contains(kept, want) {
			t.Errorf("the output does not say %q:\n%s", want, said)
		}
	}
	if code != 4 || !strings.Contains(raw, `"failed": ["Slow"]`) {
		t.Errorf("run.sh ends with %d and keeps %s, want 4 and the check that was running", code, raw)
	}
}
