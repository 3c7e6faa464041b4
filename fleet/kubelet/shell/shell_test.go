package shell_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/fleet/kubelet/shell"
	"berth.dev/berth/fleet/smi"
)

const uuid = "GPU-6f1c0c5a-0000-5000-8000-000000000003"

// machine is a container that holds GPU 3 of its node.
func machine() shell.Machine {
	return shell.Machine{
		Hostname: "gpu-test", Image: "nvidia/cuda:12.4.1-base-ubuntu22.04", WorkingDir: "/workspace",
		Env:  []string{"PATH=/usr/bin", "NVIDIA_VISIBLE_DEVICES=" + uuid, "TEAM=vision  nlp"},
		GPUs: []int{3},
		Now:  func() time.Time { return time.Date(2026, 11, 20, 10, 4, 5, 0, time.UTC) },
		View: func() smi.View {
			return smi.View{Driver: "570.124.06", CUDA: "12.8", Devices: []smi.Device{{
				GPU: gpu.GPU{UUID: uuid, Product: "NVIDIA A100-SXM4-40GB", MemoryBytes: 40 << 30, Healthy: true},
			}}}
		},
	}
}

// noGPU is a container without a device.
func noGPU() shell.Machine {
	m := machine()
	m.GPUs, m.View, m.Env = nil, nil, []string{"PATH=/usr/bin"}
	return m
}

func TestRun(t *testing.T) {
	sh := func(line string) []string { return []string{"sh", "-c", line} }
	tests := []struct {
		name   string
		m      shell.Machine
		argv   []string
		stdin  string
		stdout string
		stderr string // contained in it
		code   int
	}{
		{name: "nvidia-smi shows the container's own GPU", argv: []string{"nvidia-smi", "-L"}, stdout: "GPU 0: NVIDIA A100-SXM4-40GB (UUID: " + uuid + ")\n"},
		{name: "nvidia-smi is found by its path", argv: []string{"/usr/bin/nvidia-smi", "-L"}, stdout: "GPU 0: NVIDIA A100-SXM4-40GB (UUID: " + uuid + ")\n"},
		{name: "a container without a GPU has no nvidia-smi", m: noGPU(), argv: []string{"nvidia-smi"}, stderr: "nvidia-smi: command not found: this container holds no GPU", code: 127},
		{name: "env prints the environment in order", argv: []string{"env"}, stdout: "PATH=/usr/bin\nNVIDIA_VISIBLE_DEVICES=" + uuid + "\nTEAM=vision  nlp\n"},
		{name: "env adds to the environment of one command", argv: sh("env A=1 printenv A; printenv A"), stdout: "1\n", code: 1},
		{name: "printenv prints one variable", argv: []string{"printenv", "NVIDIA_VISIBLE_DEVICES"}, stdout: uuid + "\n"},
		{name: "an unset variable is exit code 1", argv: []string{"printenv", "NOPE"}, code: 1},
		{name: "ls expands the pattern of devices itself", argv: []string{"ls", "/dev/nvidia*"}, stdout: "/dev/nvidia-uvm\n/dev/nvidia-uvm-tools\n/dev/nvidia3\n/dev/nvidiactl\n"},
		{name: "a shell expands it too", argv: sh("echo /dev/nvidia[0-9]"), stdout: "/dev/nvidia3\n"},
		{name: "ls -la shows device numbers", argv: []string{"ls", "-la", "/dev/nvidia3"}, stdout: "crw-rw-rw- 1 root root 195,   3 Nov 20 10:04 /dev/nvidia3\n"},
		{name: "without a GPU there are no devices", m: noGPU(), argv: []string{"ls", "/dev/nvidia*"}, stderr: "ls: cannot access '/dev/nvidia*': No such file or directory", code: 2},
		{name: "the driver's version is a file", argv: []string{"cat", "/proc/driver/nvidia/version"}, stdout: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  (simulated by Berth)\n"},
		{name: "a file that is not there", argv: []string{"cat", "/data/train.csv"}, stderr: "cat: /data/train.csv: No such file or directory", code: 1},
		{name: "hostname is the pod", argv: []string{"hostname"}, stdout: "gpu-test\n"},
		{name: "date takes a format", argv: []string{"date", "+%F %T"}, stdout: "2026-11-20 10:04:05\n"},
		{name: "the plain date", argv: []string{"date"}, stdout: "Fri Nov 20 10:04:05 UTC 2026\n"},
		{name: "cd and pwd", argv: sh("pwd; cd /dev && pwd; cd nowhere || echo no"), stdout: "/workspace\n/dev\nno\n", stderr: "cd: /dev/nowhere"},
		{name: "a command line of three", argv: sh("true && echo a; false && echo b || echo c"), stdout: "a\nc\n"},
		{name: "the code is that of the last command", argv: sh("true; false"), code: 1},
		{name: "a leading ! turns the code round", argv: sh("! true || echo $?"), stdout: "1\n"},
		{name: "exit ends with its code", argv: sh("exit 3; echo never"), code: 3},
		{name: "an unquoted variable is split", argv: sh("echo $TEAM"), stdout: "vision nlp\n"},
		{name: "a quoted variable is not", argv: sh(`echo "$TEAM" '$TEAM' \$TEAM`), stdout: "vision  nlp $TEAM $TEAM\n"},
		{name: "a variable has a fallback", argv: sh("echo ${NOPE:-none} $NOPE ${PATH}"), stdout: "none /usr/bin\n"},
		{name: "an assignment holds for one command", argv: sh("A=1 printenv A; printenv A; B=2; echo $B"), stdout: "1\n2\n"},
		{name: "export reaches env", argv: sh("export A=1; env | grep ^A"), stdout: "A=1\n"},
		{name: "a pipe into grep", argv: sh("env | grep -i nvidia | wc -l"), stdout: "1\n"},
		{name: "grep finds nothing", argv: sh("env | grep nowhere"), code: 1},
		{name: "grep with alternatives in basic form", argv: sh(`env | grep -c 'PATH\|TEAM'`), stdout: "2\n"},
		{name: "grep with lines around", argv: []string{"grep", "-n", "-A1", "b"}, stdin: "a\nb\nc\nd\n", stdout: "2:b\n3-c\n"},
		{name: "grep separates groups", argv: []string{"grep", "-B", "1", "[bf]"}, stdin: "a\nb\nc\nd\ne\nf\n", stdout: "a\nb\n--\ne\nf\n"},
		{name: "grep -v and -o", argv: sh("grep -v a | grep -o '[0-9]*'"), stdin: "a1\nb22\n", stdout: "22\n"},
		{name: "head and tail", argv: sh("head -n 3 | tail -1"), stdin: "1\n2\n3\n4\n", stdout: "3\n"},
		{name: "streams can be joined and dropped", argv: sh("nope 2>/dev/null; nope 2>&1 | grep -c simulated; echo x >/dev/null"), stdout: "1\n"},
		{name: "a script comes from stdin", argv: []string{"sh"}, stdin: "echo 'a\nb'\nexit 4\necho c\n", stdout: "a\nb\n", code: 4},
		{name: "bash is the same", argv: []string{"bash", "-lc", "echo a # b"}, stdout: "a\n"},
		{name: "nvcc needs a devel image", argv: []string{"nvcc", "--version"}, stderr: "use a devel image", code: 127},
		{name: "python is not simulated", argv: []string{"python", "-c", "import torch"}, stderr: "berth: this container is simulated; it can run: :, bash, cat", code: 127},
		{name: "which finds what is there", argv: sh("which nvidia-smi; which python || echo no"), stdout: "/usr/bin/nvidia-smi\nno\n"},
		{name: "nothing runs in the background", argv: sh("sleep 1 &"), stderr: "nothing runs in the background", code: 2},
		{name: "a file cannot be written", argv: sh("echo a > /tmp/a"), stderr: "a simulated container has no files", code: 2},
		{name: "an open quote is an error", argv: sh("echo 'a"), stderr: "left open", code: 2},
		{name: "a command that names itself ends", argv: sh(`export X='sh -c "$X"'; sh -c "$X"`), stderr: "call one another more than 16 deep", code: 126},
		{name: "a variable cannot grow without end", argv: sh("X=0123456789abcdef;" + strings.Repeat("X=$X$X$X$X;", 10)), stderr: "argument list too long", code: 126},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := tt.m
			if m.Hostname == "" {
				m = machine()
			}
			var stdout, stderr bytes.Buffer
			code := shell.Run(t.Context(), m, tt.argv, strings.NewReader(tt.stdin), &stdout, &stderr)
			if code != tt.code || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("Run(%q) = %d, stderr %q; want %d, stderr with %q", tt.argv, code, stderr.String(), tt.code, tt.stderr)
			}
			if diff := cmp.Diff(tt.stdout, stdout.String()); diff != "" {
				t.Errorf("Run(%q): stdout (-want +got):\n%s", tt.argv, diff)
			}
		})
	}
}

func TestNvccReadsTheReleaseFromTheImage(t *testing.T) {
	m := machine()
	m.Image = "nvidia/cuda:12.2.0-devel-ubuntu22.04"
	var out bytes.Buffer
	if code := shell.Run(t.Context(), m, []string{"nvcc", "--version"}, nil, &out, io.Discard); code != 0 || !strings.Contains(out.String(), "release 12.2\n") {
		t.Errorf("nvcc --version = %d, %q; want 0 and release 12.2", code, out.String())
	}
}

func TestMIGDevicesHaveCapabilities(t *testing.T) {
	m := machine()
	m.Caps = []int{3, 4}
	var out bytes.Buffer
	shell.Run(t.Context(), m, []string{"ls", "/dev/nvidia*"}, nil, &out, io.Discard)
	want := "/dev/nvidia-uvm\n/dev/nvidia-uvm-tools\n/dev/nvidia3\n/dev/nvidiactl\n\n/dev/nvidia-caps:\nnvidia-cap3\nnvidia-cap4\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("ls /dev/nvidia* (-want +got):\n%s", diff)
	}
}

func TestWatchRepeatsUntilTheClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		var out bytes.Buffer
		code := shell.Run(ctx, machine(), []string{"watch", "-n", "1", "nvidia-smi", "-L"}, nil, &out, io.Discard)
		// At 0, 1, 2 and 3 s.
		if n := strings.Count(out.String(), "GPU 0: "); n != 4 || code != 130 {
			t.Errorf("watch = %d after %d rounds, want 130 after 4", code, n)
		}
		if !strings.Contains(out.String(), "Every 1.0s: nvidia-smi -L    gpu-test: ") {
			t.Errorf("watch printed no header: %q", out.String())
		}
	})
}

func TestSleepEndsInTimeOrWithItsContext(t *testing.T) {
	tests := []struct {
		name string
		argv []string
		took time.Duration
		code int
	}{
		{"a sleep takes its time", []string{"sleep", "1.5"}, 1500 * time.Millisecond, 0},
		{"a sleep has units", []string{"sleep", "1m", "2s"}, 62 * time.Second, 0},
		{"the client leaves", []string{"sleep", "infinity"}, 100 * time.Second, 130},
		{"timeout ends it", []string{"timeout", "5", "sleep", "1h"}, 5 * time.Second, 124},
		{"a pipe ends its writer", []string{"sh", "-c", "watch -t date | head -1"}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
				defer cancel()
				start := time.Now()
				code := shell.Run(ctx, machine(), tt.argv, nil, io.Discard, io.Discard)
				if took := time.Since(start); code != tt.code || took != tt.took {
					t.Errorf("Run(%q) = %d after %v, want %d after %v", tt.argv, code, took, tt.code, tt.took)
				}
			})
		})
	}
}

func TestInteract(t *testing.T) {
	tests := []struct {
		name  string
		typed string
		want  []string
		code  int
	}{
		{"a banner says that it is simulated", "exit\r", []string{"This container is simulated by Berth", "root@gpu-test:/workspace# "}, 0},
		{"commands run and exit gives its code", "cd /dev\rpwd\rexit 7\r", []string{"root@gpu-test:/dev# ", "/dev\r\n"}, 7},
		{"Ctrl-D ends it", "hostname\r\x04", []string{"gpu-test\r\n"}, 0},
		{"Ctrl-C clears the line", "exit 9\x03hostname\r\x04", []string{"gpu-test\r\n"}, 0},
		{"an open quote asks for more", "echo 'a\rb'\r\x04", []string{"> ", "a\r\nb\r\n"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			code := shell.Interact(t.Context(), machine(), strings.NewReader(tt.typed), &out, nil)
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("typed %q: output %q has no %q", tt.typed, out.String(), want)
				}
			}
			if code != tt.code {
				t.Errorf("typed %q: code %d, want %d", tt.typed, code, tt.code)
			}
		})
	}
}

func TestCtrlCEndsTheCommandAndNotTheShell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stdin, keys := io.Pipe()
		var out bytes.Buffer
		done := make(chan int)
		go func() { done <- shell.Interact(t.Context(), machine(), stdin, &out, nil) }()
		fmt.Fprint(keys, "sleep 1h\r")
		synctest.Wait()
		fmt.Fprint(keys, "\x03")
		synctest.Wait()
		fmt.Fprint(keys, "hostname\rexit\r")
		if code := <-done; code != 0 || !strings.Contains(out.String(), "gpu-test\r\n") {
			t.Errorf("Interact = %d, %q; want 0 and the hostname", code, out.String())
		}
		keys.Close()
	})
}

// Ctrl-C may come before anything else does.
func TestCtrlCIsHeardFromTheStart(t *testing.T) {
	stops := 0
	typed, err := io.ReadAll(shell.Interruptible(strings.NewReader("\x03a"), func() { stops++ }))
	if stops != 1 || string(typed) != "a" || err != nil {
		t.Errorf("stop was called %d times, and %q, %v was read; want once and a", stops, typed, err)
	}
}

func TestInteractive(t *testing.T) {
	for argv, want := range map[string]bool{"sh": true, "/bin/bash": true, "bash -l": true, "/usr/bin/sh -i": true, "sh -c": false, "sh run.sh": false, "zsh": false, "": false} {
		if got := shell.Interactive(strings.Fields(argv)); got != want {
			t.Errorf("Interactive(%q) = %v, want %v", argv, got, want)
		}
	}
}

func TestTheShellLanguage(t *testing.T) {
	tests := []struct {
		name   string
		line   string
		stdin  string
		stdout string
		stderr string // contained in it
		code   int
	}{
		{name: "for over words", line: "for i in a b; do echo $i; done", stdout: "a\nb\n"},
		{name: "for over a pattern of devices", line: "for d in /dev/nvidia[0-9]*; do echo $d; done", stdout: "/dev/nvidia3\n"},
		{name: "for over braces", line: "for i in {1..3}; do echo -n $i; done", stdout: "123"},
		{name: "for over arguments", line: "for a; do echo $a; done"},
		{name: "for with a counter", line: "for ((i=0; i<3; i++)); do echo -n $i; done", stdout: "012"},
		{name: "while with a counter", line: "i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo -n $i; done", stdout: "123"},
		{name: "until", line: "until [ $((n+=1)) -ge 4 ]; do echo -n $n; done", stdout: "123"},
		{name: "break and continue", line: "for i in 1 2 3 4; do if [ $i = 2 ]; then continue; fi; [ $i = 4 ] && break; echo -n $i; done", stdout: "13"},
		{name: "break out of two loops", line: "while true; do while true; do break 2; done; echo never; done; echo out", stdout: "out\n"},
		{name: "if, elif and else", line: "for i in 1 2 3; do if [ $i = 1 ]; then echo a; elif [ $i = 2 ]; then echo b; else echo c; fi; done", stdout: "a\nb\nc\n"},
		{name: "case", line: "for i in x.gz y; do case $i in *.gz|*.tgz) echo zip;; *) echo other;; esac; done", stdout: "zip\nother\n"},
		{name: "substitution", line: "echo \"it is $(date +%F) on `hostname`\"", stdout: "it is 2026-11-20 on gpu-test\n"},
		{name: "substitution keeps the exit code", line: "X=$(exit 3) || echo $?", stdout: "3\n"},
		{name: "the devices one by one", line: "for g in $(nvidia-smi -L | grep -o 'GPU [0-9]*' | wc -l); do echo $g; done", stdout: "1\n"},
		{name: "read in a pipe", line: "printf 'a b\\nc\\n' | while read -r x y; do echo \"$x-$y\"; done", stdout: "a-b\nc-\n"},
		{name: "read with IFS", line: "while IFS=: read -r x y; do echo $y; done", stdin: "a:b\nc:d\n", stdout: "b\nd\n"},
		{name: "a subshell keeps its changes", line: "A=1; (A=2; cd /dev; exit 4); echo $A $? $PWD", stdout: "1 4 /workspace\n"},
		{name: "a block shares them", line: "A=1; { A=2; }; echo $A", stdout: "2\n"},
		{name: "a here-document", line: "cat <<E\nhost $(hostname)\nE\n", stdout: "host gpu-test\n"},
		{name: "a file is read", line: "read h < /etc/hostname; echo $h", stdout: "gpu-test\n"},
		{name: "a file of the host is not there", line: "cat < /etc/passwd", stderr: "sh: /etc/passwd: No such file or directory", code: 1},
		{name: "prefix and suffix", line: "f=a.tar.gz; echo ${f%.gz} ${f##*.} ${#f} ${f:2:3}", stdout: "a.tar gz 8 tar\n"},
		{name: "a value that must be set", line: "echo ${NOPE:?is missing}; echo never", stderr: "sh: NOPE: is missing", code: 1},
		{name: "tests of files", line: "[ -c /dev/nvidia3 ] && [ -d /dev ] && [ ! -e /data ] && test -n x", code: 0},
		{name: "a wrong test", line: "[ 1 -foo 2 ]", stderr: "[: -foo is not a comparison", code: 2},
		{name: "seq and printf", line: "printf '%02d ' $(seq 2 2 6)", stdout: "02 04 06 "},
		{name: "unset", line: "unset PATH; echo ${PATH-gone}", stdout: "gone\n"},
		{name: "a home of the host is not looked up", line: "echo ~ ~root ~nobody/x", stdout: "/root ~root ~nobody/x\n"},
		{name: "the process is not the host's", line: "echo $$ $UID $PPID", stdout: "1 0\n"},
		{name: "a function is refused", line: "f() { f; }; f", stderr: "a function is not supported", code: 2},
		{name: "an array is refused", line: "a=(1 2)", stderr: "an array is not supported", code: 2},
		{name: "process substitution is refused", line: "cat <(date)", stderr: "process substitution is not supported", code: 2},
		{name: "replacing in a value is refused", line: "echo ${PATH//a/b}", stderr: "not supported in this form", code: 2},
		{name: "an open loop is an error", line: "while true; do date", stderr: "left open", code: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := shell.Run(t.Context(), machine(), []string{"sh", "-c", tt.line}, strings.NewReader(tt.stdin), &stdout, &stderr)
			if code != tt.code || !strings.Contains(stderr.String(), tt.stderr) || tt.stderr == "" && stderr.Len() > 0 {
				t.Errorf("sh -c %q = %d, stderr %q; want %d, stderr with %q", tt.line, code, stderr.String(), tt.code, tt.stderr)
			}
			if diff := cmp.Diff(tt.stdout, stdout.String()); diff != "" {
				t.Errorf("sh -c %q: stdout (-want +got):\n%s", tt.line, diff)
			}
		})
	}
}

func FuzzShell(f *testing.F) {
	for _, s := range []string{
		"echo a; b && c || d | e", `x="$A" y='b' env`, "grep -A1 'a\\|b' < /dev/null", "a 2>&1 >/dev/null", "! ${A:-b} $? $$ #c",
		"watch -n 1 x", "head -3 | tail -n+2", "ls -la /dev/nvidia*", "date +%Y%%", "echo -ne 'a\\n'", "a &", "for i in {1..9} $(seq 3); do echo ${i%x}; done", "case $A in [a-z]*) b;; esac", "while read x; do echo $((x*2)); done <<E\n1\nE\n", "(b)", "c\\\nd", "cd /; ls",
	} {
		f.Add(s, "a\nb\n")
	}
	f.Fuzz(func(t *testing.T, line, stdin string) {
		// Ended from the start, so no command waits.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		shell.Run(ctx, machine(), []string{"sh", "-c", line}, strings.NewReader(stdin), io.Discard, io.Discard)
		shell.Run(ctx, machine(), strings.Fields(line), strings.NewReader(stdin), io.Discard, io.Discard)
	})
}
