package berth_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// inACopy copies the Makefile and the scripts of tools into a folder of their own, with
// programs on the PATH that stand in for those that would build or install: go writes
// down what it is asked.
func inACopy(t *testing.T) (dir, calls string) {
	t.Helper()
	dir, bin := t.TempDir(), filepath.Join(t.TempDir(), "bin")
	calls = filepath.Join(t.TempDir(), "calls")
	scripts, err := filepath.Glob("tools/*.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(scripts, "Makefile") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
	for _, sub := range []string{"tools/containerd", "tools/nvidia", "cmd/berth-nvml"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, does := range map[string]string{
		"go": `echo "CGO_ENABLED=$CGO_ENABLED go $*" >>"` + calls + `"`, "id": "echo 0", "uname": "echo Linux", "runc": "true", "git": "true", "gofmt": "true",
	} {
		write(t, filepath.Join(bin, name), "#!/bin/sh\n"+does+"\n")
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("BERTH_TEST_NODE", "")
	if err := os.Unsetenv("CGO_ENABLED"); err != nil {
		t.Fatal(err)
	}
	return dir, calls
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestScriptsBuildWithTheFlagsOfTheMakefile runs those scripts that contributors type
// themselves as make does, and without an argument: both build the same.
func TestScriptsBuildWithTheFlagsOfTheMakefile(t *testing.T) {
	for script, first := range map[string]string{"node.sh": "./test/node/kubelet", "build.sh": "./cmd/berth"} {
		t.Run(script, func(t *testing.T) {
			t.Setenv("CGO_ENABLED", "")
			dir, calls := inACopy(t)
			flags, err := exec.Command("make", "-s", "-C", dir, "--no-print-directory", "ldflags").Output()
			if err != nil || !strings.Contains(string(flags), "gitVersion=v1.") {
				t.Fatalf("make ldflags: %v, %q", err, flags)
			}
			text := strings.TrimSpace(string(flags))
			var seen []string
			for _, args := range [][]string{nil, {text}} {
				if err := os.RemoveAll(calls); err != nil {
					t.Fatal(err)
				}
				run := exec.Command("sh", append([]string{filepath.Join(dir, "tools", script)}, args...)...)
				if out, err := run.CombinedOutput(); err != nil && script != "build.sh" { // whose ok is go's
					t.Fatalf("tools/%s with arguments %q: %v\n%s", script, args, err, out)
				}
				raw, err := os.ReadFile(calls)
				if err != nil {
					t.Fatalf("tools/%s with arguments %q built nothing: %v", script, args, err)
				}
				seen = append(seen, string(raw))
			}
			if seen[0] != seen[1] {
				t.Errorf("without an argument:\n%s\nwith that of the Makefile:\n%s", seen[0], seen[1])
			}
			found := false
			for line := range strings.Lines(seen[0]) {
				found = found || strings.HasPrefix(line, "CGO_ENABLED=0 go build") && strings.Contains(line, "-ldflags "+text) && strings.HasSuffix(strings.TrimSpace(line), first)
			}
			if !found {
				t.Errorf("no build of %s with CGO_ENABLED=0 and %s:\n%s", first, text, seen[0])
			}
		})
	}
}
