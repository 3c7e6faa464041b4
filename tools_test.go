package berth_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// TestReleasesNameNoFolderOfTheMachine runs tools/release.sh with a go whose programs
// name the folders that they were built of, unless -trimpath is set, as Go's
// do. A release is made, with checksums; where one program names a folder there is none.
func TestReleasesNameNoFolderOfTheMachine(t *testing.T) {
	for _, tt := range []struct {
		name, names string // what programs name although they are trimmed
		fails       bool
	}{
		{"every program is trimmed", "", false},
		{"one names the repository", "$BERTH_ROOT/cmd/main.go", true},
		{"one names Go's own folder", "/goroot/src/fmt/print.go", true},
		{"one names a module", "/modules/x@v1/x.go", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, calls := inACopy(t)
			bin := filepath.Join(t.TempDir(), "bin")
			write(t, filepath.Join(bin, "go"), `#!/bin/sh
case "$*" in
"env GOROOT") echo /goroot ;;
"env GOMODCACHE") echo /modules ;;
"env GOOS") echo linux ;;
"env GOARCH") echo amd64 ;;
"env CC") echo true ;;
build*)
	echo "GOFLAGS=$GOFLAGS go $*" >>"`+calls+`"
	text="$BERTH_ROOT/x.go /goroot/x.go /modules/x.go"
	case "$GOFLAGS $*" in *-trimpath*) text="`+tt.names+`" ;; esac
	while [ "$1" != -o ]; do shift; done
	echo "a program $text" >"$2" ;;
esac
`)
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			t.Setenv("BERTH_ROOT", dir)
			t.Setenv("GOFLAGS", "")
			out, err := exec.Command("sh", filepath.Join(dir, "tools", "release.sh"), "-s -w", "linux/amd64", "darwin/arm64").CombinedOutput()
			if failed := err != nil; failed != tt.fails || failed && !strings.Contains(string(out), "names a folder of this machine: ") {
				t.Fatalf("tools/release.sh: %v\n%s", err, out)
			}
			sums, err := os.ReadFile(filepath.Join(dir, "bin", "release", "SHA256SUMS"))
			if tt.fails {
				if err == nil {
					t.Errorf("checksums were written:\n%s", sums)
				}
				return
			}
			for _, program := range []string{"linux-amd64/berth", "linux-amd64/berth-agent", "linux-amd64/berth-nvml", "darwin-arm64/berth"} {
				if !strings.Contains(string(sums), "  "+program+"\n") {
					t.Errorf("no %s in the release: %v\n%s", program, err, sums)
				}
			}
		})
	}
}

// inParts runs tools/test.sh in a copy, with a go that lists some packages and whose
// tests of one of them fail if failing names it.
func inParts(t *testing.T, soak, failing string) (calls []string, out string, failed bool) {
	t.Helper()
	runner := filepath.Join(t.TempDir(), "parts")
	if out, err := exec.Command("go", "build", "-o", runner, "./test/parts").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir, log := inACopy(t)
	t.Setenv("BERTH_SOAK", soak)
	t.Setenv("BERTH_KEEP_GOING", "") // of the run that this is a part of
	t.Setenv("BERTH_TEST_JUPYTER", "no")
	t.Setenv("BERTH_TEST_NODE", "no")
	bin := filepath.SplitList(os.Getenv("PATH"))[0]
	write(t, filepath.Join(bin, "make"), "#!/bin/sh\n")
	write(t, filepath.Join(bin, "go"), `#!/bin/sh
echo "go $*" >>"`+log+`"
case "$*" in
"env CC") echo sh ;;
"build -o bin/parts ./test/parts") cp "`+runner+`" bin/parts ;;
list*) for p in "" /core/gang /sim /kube /ledger /cli/simulation /controlplane /scheduler/devices /scheduler/server /test /test/bench /test/node; do echo "berth.dev/berth$p"; done ;;
*"`+failing+`"*) exit 1 ;;
esac
`)
	for name, text := range map[string]string{
		".": "package berth", "core/gang": "package gang", "sim": "package sim", "kube": "package kube\n\nimport \"sync\"\n", "ledger": "package ledger\n\nimport \"sync\"\n",
		"cli/simulation": "package simulation\n\nfunc f() {\n\tgo work(1)\n}\n", "scheduler/devices": "package devices\n\nimport (\n\t\"testing/synctest\"\n)\n\nfunc long(t *testing.T) { soak.Plainly(t) }\n",
	} {
		write(t, filepath.Join(dir, name, "x_test.go"), text)
	}
	raw, err := exec.Command("sh", filepath.Join(dir, "tools", "test.sh"), "-s -w").CombinedOutput()
	text, readErr := os.ReadFile(log)
	if readErr != nil {
		t.Fatalf("%v\n%s", readErr, raw)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "go test") {
			calls = append(calls, strings.TrimSpace(line))
		}
	}
	return calls, string(raw), err != nil
}

// TestEveryPackageIsInAPartOfMakeTest runs tools/test.sh and looks which packages it
// tests, and how: each once, those with long tests both ways, and in a soak those that can be also without the race
// detector, with the ledger by itself under it.
func TestEveryPackageIsInAPartOfMakeTest(t *testing.T) {
	for _, tt := range []struct {
		soak  string
		plain string
		raced []string
	}{
		{"", " berth.dev/berth berth.dev/berth/core/gang berth.dev/berth/sim berth.dev/berth/scheduler/devices", []string{" berth.dev/berth/kube berth.dev/berth/ledger berth.dev/berth/cli/simulation berth.dev/berth/scheduler/devices"}},
		{
			"1", " berth.dev/berth berth.dev/berth/core/gang berth.dev/berth/sim berth.dev/berth/kube berth.dev/berth/ledger berth.dev/berth/cli/simulation berth.dev/berth/scheduler/devices",
			[]string{" berth.dev/berth berth.dev/berth/core/gang berth.dev/berth/sim berth.dev/berth/kube berth.dev/berth/cli/simulation berth.dev/berth/scheduler/devices", " berth.dev/berth/ledger"},
		},
	} {
		t.Run("BERTH_SOAK="+tt.soak, func(t *testing.T) {
			calls, out, failed := inParts(t, tt.soak, "nothing of this name")
			if failed {
				t.Fatalf("BERTH_SOAK=%q:\n%s", tt.soak, out)
			}
			var plain, raced, rest []string
			for _, call := range calls {
				switch {
				case strings.Contains(call, " -race "):
					raced = append(raced, call)
				case strings.Contains(call, "/core/gang"):
					plain = append(plain, call)
				default:
					rest = append(rest, call)
				}
			}
			if len(plain) != 1 || !strings.HasSuffix(plain[0], "m"+tt.plain) {
				t.Errorf("BERTH_SOAK=%q: without the race detector: %q, want%s", tt.soak, plain, tt.plain)
			}
			if !slices.EqualFunc(raced, tt.raced, func(call, packages string) bool { return strings.HasSuffix(call, "m"+packages) }) {
				t.Errorf("BERTH_SOAK=%q: under the race detector: %q, want %q", tt.soak, raced, tt.raced)
			}
			for _, want := range []string{"/controlplane berth.dev/berth/scheduler/server berth.dev/berth/test/bench", " -run ^TestChaos$ ./test", " -skip ^TestChaos$ ./test", " ./test/node/..."} {
				if n := strings.Count(strings.Join(rest, "\n")+"\n", want+"\n"); n != 1 {
					t.Errorf("BERTH_SOAK=%q: %q is tested %d times:\n%s", tt.soak, want, n, strings.Join(rest, "\n"))
				}
			}
			if !strings.Contains(out, "  scripts on the built programs\n") || !strings.Contains(out, "  all, on ") {
				t.Errorf("BERTH_SOAK=%q: no table of times:\n%s", tt.soak, out)
			}
		})
	}
}

func TestMakeTestStopsAtThePartThatFails(t *testing.T) {
	calls, out, failed := inParts(t, "", "test -race")
	if !failed || !regexp.MustCompile(`(?m)^ +failed +\d+  packages with goroutines, under the race detector$`).MatchString(out) {
		t.Errorf("failed %v, and says:\n%s", failed, out)
	}
	if all := strings.Join(calls, "\n"); strings.Contains(all, "/scheduler/server") {
		t.Errorf("it goes on with the part after it:\n%s", all)
	}
}

// TestUpStartsBeforeKubectlIsBuilt runs tools/up.sh where building kubectl takes until
// berth has started, and longer.
func TestUpStartsBeforeKubectlIsBuilt(t *testing.T) {
	dir, _ := inACopy(t)
	bin := filepath.SplitList(os.Getenv("PATH"))[0]
	started := filepath.Join(t.TempDir(), "started")
	write(t, filepath.Join(bin, "go"), `#!/bin/sh
case "$*" in
*" -o bin/berth "*) printf '#!/bin/sh\necho "$* $BERTH_UP_BEGAN" >"`+started+`"; for i in $(seq 600); do [ -e bin/kubectl ] && exit 0; sleep 0.1; done; exit 1\n' >bin/berth; chmod +x bin/berth ;;
*" -o bin/kubectl "*) for i in $(seq 600); do [ -e "`+started+`" ] && break; sleep 0.1; done; [ -e "`+started+`" ] && : >bin/kubectl ;;
esac
`)
	out, err := exec.Command("sh", filepath.Join(dir, "tools", "up.sh"), "-s -w").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "bin/kubectl and bin/jq in the background") {
		t.Errorf("tools/up.sh: %v\n%s", err, out)
	}
	args, err := os.ReadFile(started)
	if err != nil || !regexp.MustCompile(`^up \d+`).Match(args) {
		t.Errorf("berth was started with %q, %v, want with the time at which that was", args, err)
	}
}

// TestAnotherAptGetIsWaitedFor runs tools/debian.sh with a program in place of apt-get: it finds a lock twice, or fails for another reason.
func TestAnotherAptGetIsWaitedFor(t *testing.T) {
	for _, tt := range []struct {
		name, says string
		fails      int // how often it fails before it works
		works      bool
		asked      string
	}{
		{"a lock that another apt-get holds", "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)", 2, true, "update update update install"},
		{"a package that does not exist", "E: Unable to locate package runc", 1000, false, "update"},
		{"an account that may not lock", "E: Could not open lock file /var/lib/apt/lists/lock - open (13: Permission denied) E: Unable to lock directory /var/lib/apt/lists/", 1000, false, "update"},
		{"a lock that is never released", "E: Unable to lock directory /var/lib/apt/lists/", 1000, false, strings.TrimSpace(strings.Repeat("update ", 120))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			programs := map[string]string{
				"sleep":   "exit 0",
				"apt-get": fmt.Sprintf("echo $1 >>%[1]s/asked\n[ $(wc -l <%[1]s/asked) -gt %[2]d ] || { echo '%[3]s' >&2; exit 100; }", dir, tt.fails, tt.says),
			}
			for name, text := range programs {
				write(t, filepath.Join(dir, name), "#!/bin/sh\n"+text+"\n")
			}
			cmd := exec.Command("sh", "tools/debian.sh", "install", "runc")
			cmd.Env = append(os.Environ(), "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if (err == nil) != tt.works || !tt.works && !strings.Contains(string(out), tt.says) {
				t.Errorf("%v:\n%s", err, out)
			}
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if got := strings.Join(strings.Fields(string(asked)), " "); err != nil || got != tt.asked {
				t.Errorf("apt-get was asked for %q, want %q (%v)", got, tt.asked, err)
			}
		})
	}
}
