//go:build linux

package node_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is one program that a test runs.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// startProcess starts a program with its output in a file. It lives until stop,
// or until the namespace ends.
func startProcess(t *testing.T, dir, name string, env []string, args ...string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	f, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Env = append(os.Environ(), append(env, "PATH="+filepath.Dir(program("ctr"))+":/usr/local/sbin:/usr/sbin:/sbin:"+os.Getenv("PATH"))...)
	p.cmd.Stdout, p.cmd.Stderr = f, f
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // process 1 may have been quicker to hear of the end
		close(p.done)
	}()
	return p
}

// stop sends a signal and waits for the end.
func (p *process) stop(t *testing.T, s syscall.Signal) {
	t.Helper()
	_ = p.cmd.Process.Signal(s) // it may have ended
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("%s goes on %v after %v", p.name, patience, s)
	}
}

// ended reports whether it has.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail is the end of a log: without lines that are known to be harmless.
func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// children are the processes whose parent is pid, which ended ones have none of.
func children(pid int) []int {
	var found []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // ended
		}
		var own, parent int
		var state string
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(path)), "%d", &own); err != nil {
			continue
		}
		after := data[bytes.LastIndexByte(data, ')')+1:]
		if _, err := fmt.Sscanf(string(after), " %s %d", &state, &parent); err == nil && parent == pid && state != "Z" {
			found = append(found, own)
		}
	}
	slices.Sort(found)
	return found
}

// residentBytes is the memory of a process as `ps` shows it, and how much of that
// is its own: the rest are parts of files, such as the program, that the kernel keeps
// mapped for as long as nobody else needs the memory.
func residentBytes(t *testing.T, pid int) (all, own int64) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(data), &size, &resident, &shared); err != nil {
		t.Fatal(err)
	}
	page := int64(os.Getpagesize())
	return resident * page, (resident - shared) * page
}

// program is the path of a built program: in ../../bin, or in the folder that
// BERTH_TEST_BIN names.
func program(name string) string {
	dir := os.Getenv("BERTH_TEST_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		panic(err) // the working folder is gone
	}
	return path
}

// missing says what the tests need and this machine lacks; "" is nothing.
func missing() string {
	if os.Getenv("BERTH_TEST_NODE") == "no" {
		return "BERTH_TEST_NODE=no"
	}
	if os.Getuid() != 0 {
		return "a real node needs root"
	}
	if _, err := exec.LookPath("runc"); err != nil {
		return "a real node needs runc (apt-get install runc)"
	}
	for _, name := range []string{"kubelet", "containerd", "containerd-shim-runc-v2", "ctr", "gpuapp", "berth-agent", "berth-nvml"} {
		if _, err := os.Stat(program(name)); err != nil {
			return fmt.Sprintf("%s is not built: run `make test`, or tools/node.sh", program(name))
		}
	}
	if _, err := os.Stat(kubeletDir); err != nil && strings.HasPrefix(program("ctr"), filepath.Dir(kubeletDir)+"/") {
		return "this folder is in one that would be hidden: make an empty " + kubeletDir
	}
	if _, _, err := hierarchies(); err != nil {
		return "a real node needs cgroups: " + err.Error()
	}
	probe := exec.Command("/proc/self/exe", "-test.run=^$")
	probe.Env = append(os.Environ(), roleVariable+"="+roleTest)
	probe.SysProcAttr = namespaces()
	if out, err := probe.CombinedOutput(); err != nil {
		return fmt.Sprintf("a real node needs namespaces of its own: %v %s", err, out)
	}
	return ""
}

// eventually asks until there is no error, and fails the test with the last one.
// It says how long that took.
func eventually(t *testing.T, patience time.Duration, what string, ask func() error) time.Duration {
	t.Helper()
	began := time.Now()
	if err := until(patience, what, ask); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// until asks until there is no error, and gives the last one.
func until(patience time.Duration, what string, ask func() error) error {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := ask()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: not after %v: %w", what, patience, err)
		}
	}
}
