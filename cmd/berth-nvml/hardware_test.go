package main_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"berth.dev/berth/cmd/berth-nvml/fakelib"
)

// hardwareChecks builds the checks.
func hardwareChecks(t *testing.T) string {
	t.Helper()
	checks := filepath.Join(t.TempDir(), "checks")
	build := exec.Command("go", "test", "-c", "-tags", "hardware", "-o", checks, "./hardware")
	build.Env = append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS=-g -O2 -Wno-deprecated-declarations", "CGO_LDFLAGS=-g -O2 -Wl,-z,lazy")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the checks: %v\n%s", err, out)
	}
	return checks
}

// TestTheMIGCheckPutsTheGPUBack ends the check of MIG in every way but SIGKILL, and wants
// the stand-in's GPU as it was before.
func TestTheMIGCheckPutsTheGPUBack(t *testing.T) {
	t.Parallel()
	checks := hardwareChecks(t)
	for _, tt := range []struct {
		name   string
		lines  []string
		env    string
		signal os.Signal
		last   string // change that has to be the last of all
		code   int
	}{
		{"when it ends, with a failure of its own", []string{fakelib.GPU(0, "memory=143771")}, "", nil, "mig mode GPU-0 0", 1}, // the stand-in has no device nodes
		{"when its time is up", []string{fakelib.GPU(0, "memory=143771")}, "BERTH_MIG_HOLD=1", syscall.SIGTERM, "mig mode GPU-0 0", 1},
		{"when a person interrupts it", []string{fakelib.GPU(0, "memory=143771")}, "BERTH_MIG_HOLD=1", syscall.SIGINT, "mig mode GPU-0 0", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lib := fakelib.Build(t)
			lib.Write(t, append([]string{"driver 570.124.06 12080"}, tt.lines...)...)
			cmd := exec.Command(checks, "-test.v", "-test.run", "MIGCut")
			cmd.Env = append(append(os.Environ(), lib.Env()...), "BERTH_NVML="+program, "BERTH_MIG=1", tt.env)
			var out strings.Builder
			pipe, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stderr = &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for lines := bufio.NewScanner(pipe); lines.Scan(); {
				out.WriteString(lines.Text() + "\n")
				if tt.signal != nil && strings.Contains(lines.Text(), "hardware: MIG is on") {
					if err := cmd.Process.Signal(tt.signal); err != nil {
						t.Fatal(err)
					}
				}
			}
			err = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("it ends with %d, %v; want %d\n%s", code, err, tt.code, out.String())
			}
			modes := slices.DeleteFunc(lib.Calls(t), func(c string) bool { return !strings.HasPrefix(c, "mig mode") })
			if len(modes) != 2 || modes[0] != "mig mode GPU-0 1" || modes[1] != tt.last {
				t.Errorf("the driver was told %q; want MIG on, and last of all %s\n%s", modes, tt.last, out.String())
			}
		})
	}
}

// TestHardwareChecks runs the checks for machines with a GPU on the stand-in,
// so that they do not fall apart between two such machines: they have to pass
// where nvidia-smi agrees, and to fail where it does not.
func TestHardwareChecks(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lib.Write(t, "driver 570.124.06 12080", fakelib.GPU(0, "temp=40 power=80000"), fakelib.GPU(1, "temp=41 power=80000"), "link 0 1 18")
	dir, checks := t.TempDir(), hardwareChecks(t)
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

// TestTheCheckBesideDCGM has a second exporter of ours, on a driver that shows other
// values, stand in for dcgm-exporter.
func TestTheCheckBesideDCGM(t *testing.T) {
	t.Parallel()
	dir, checks := t.TempDir(), hardwareChecks(t)
	agent := filepath.Join(dir, "berth-agent")
	build := exec.Command("go", "build", "-C", "../..", "-o", agent, "./cmd/berth-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	run := func(path, temperature string, env ...string) (string, error) {
		ours, its := fakelib.Build(t), fakelib.Build(t)
		ours.Write(t, "driver 570.124.06 12080", fakelib.GPU(0, "temp=40 power=80000"), fakelib.GPU(1, "temp=41 power=80000"))
		its.Write(t, "driver 570.124.06 12080", fakelib.GPU(0, "temp="+temperature+" power=81000"), fakelib.GPU(1, "temp=41 power=80000"))
		script := "#!/bin/sh\nexport " + strings.Join(its.Env(), " ") + "\nexec " + agent + " --observe --pods kubelet --kubelet-url https://127.0.0.1:1 --kubelet-dir " + dir +
			" --node-name its --listen $2 --metrics-file $4 --nvml-program " + program + "\n"
		if err := os.WriteFile(filepath.Join(dir, "dcgm-exporter"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(checks, "-test.v", "-test.run", "DCGM")
		cmd.Env = append(append(append(os.Environ(), ours.Env()...), "BERTH_NVML="+program, "BERTH_AGENT="+agent, "BERTH_DCGM=", "PATH="+path), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(dir+":"+os.Getenv("PATH"), "42"); err != nil || !strings.Contains(out, "--- PASS: TestDCGM") || !strings.Contains(out, "DCGM_FI_DEV_GPU_TEMP") {
		t.Errorf("beside one that agrees: %v, want a check that passes:\n%s", err, out)
	}
	if out, err := run(dir+":"+os.Getenv("PATH"), "90"); err == nil || !strings.Contains(out, "DCGM_FI_DEV_GPU_TEMP of GPU-0: 40, dcgm-exporter says 90") {
		t.Errorf("beside one that shows 90 C: %v, want a failure that says so:\n%s", err, out)
	}
	if out, err := run("/usr/bin:/bin", "42"); err != nil || !strings.Contains(out, "--- SKIP: TestDCGM") || !strings.Contains(out, "not run: there is no dcgm-exporter on the PATH") {
		t.Errorf("beside none: %v, want a check that says that it has not run:\n%s", err, out)
	}
	if out, err := run("/usr/bin:/bin", "42", "BERTH_DCGM=http://127.0.0.1:1/metrics"); err == nil || !strings.Contains(out, "ask http://127.0.0.1:1/metrics") {
		t.Errorf("beside an address that does not answer: %v, want a failure that names it:\n%s", err, out)
	}
}

// hookScript stands in for nvidia-cdi-hook: it makes links and runs ldconfig in the root
// folder of the container, which it also gives the file that the stand-in driver reads.
const hookScript = `#!/bin/sh
set -eu
root=$(sed 's/.*"bundle":"\([^"]*\)".*/\1/')/rootfs
mkdir -p "$root$(dirname STATE)"
cp STATE "$root"STATE
command=$1
shift
while [ $# -gt 0 ]; do
	case $command/$1 in
	create-symlinks/--link) mkdir -p "$(dirname "$root${2#*::}")"; ln -sf "${2%%::*}" "$root${2#*::}"; shift ;;
	update-ldcache/--folder) folders="${folders-} $2"; shift ;;
	esac
	shift
done
[ $command != update-ldcache ] || ldconfig -r "$root" $folders
`

// TestTheCheckOfAContainer starts a container on the stand-in's driver by our
// specification, with runc and a stand-in for the hooks.
func TestTheCheckOfAContainer(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("skipped: a container with devices needs root")
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Skip("skipped: there is no runc here; tools/node.sh installs it")
	}
	checks := hardwareChecks(t)
	const gpu, other = "gpu uuid=GPU-11111111-0000-0000-0000-000000000000 name=NVIDIA_H200 bus=00000000:1A:00.0", "gpu uuid=GPU-22222222-0000-0000-0000-000000000000 name=NVIDIA_H200 bus=00000000:1B:00.0"
	for _, tt := range []struct {
		name, script, path string
		gpus               []string
		says               []string
		pass               bool
	}{
		{"with its GPU, the links and the loader's cache", hookScript, "", []string{gpu}, []string{"--- PASS: TestContainer", "--- PASS: TestHooks", "sees [GPU-11111111"}, true},
		{"with a GPU that it was not given", hookScript, "", []string{gpu, other}, []string{"--- FAIL: TestContainer", "sees [GPU-11111111-0000-0000-0000-000000000000 GPU-22222222"}, false},
		{"whose links are not made", strings.Replace(hookScript, "ln -sf", "true", 1), "", []string{gpu}, []string{"--- FAIL: TestContainer", "a hook has to point it to"}, false},
		{"whose loader knows no driver", strings.Replace(hookScript, "ldconfig -r", "true", 1), "", []string{gpu}, []string{"--- FAIL: TestContainer", "NVML in the container"}, false},
		{"whose hook fails", "#!/bin/sh\necho the hook is broken >&2; exit 1\n", "", []string{gpu}, []string{"--- FAIL: TestContainer", "the hook is broken"}, false},
		{"whose hook is not there", "", "/usr/sbin:/usr/bin:/sbin:/bin", []string{gpu}, []string{"--- SKIP: TestContainer", "--- SKIP: TestHooks", "not run: neither nvidia-cdi-hook nor nvidia-ctk is on the PATH"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lib := fakelib.Build(t)
			lib.Write(t, append([]string{"driver 570.124.06 12080"}, tt.gpus...)...)
			driverFiles(t, lib, "nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")
			data, err := os.ReadFile(filepath.Join(lib.Dir, "libnvidia-ml.so.1"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(lib.Dir, "libnvidia-ml.so.570.124.06"), data, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(checks, "-test.v", "-test.run", "Container|Hooks")
			cmd.Env = append(append(os.Environ(), lib.Env()...), "BERTH_NVML="+program, "BERTH_DRIVER_ROOT="+lib.Root, "PATH="+tt.path)
			if tt.script != "" {
				dir, state := t.TempDir(), strings.TrimPrefix(lib.Env()[1], "NVML_STATE=")
				if err := os.WriteFile(filepath.Join(dir, "nvidia-cdi-hook"), []byte(strings.ReplaceAll(tt.script, "STATE", state)), 0o755); err != nil {
					t.Fatal(err)
				}
				cmd.Env = append(cmd.Env, "PATH="+dir+":"+filepath.Dir(runc)+":"+os.Getenv("PATH"))
			}
			out, err := cmd.CombinedOutput()
			if (err == nil) != tt.pass {
				t.Errorf("the checks: %v, want them to pass: %v", err, tt.pass)
			}
			for _, want := range tt.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("the checks do not say %q", want)
				}
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}
