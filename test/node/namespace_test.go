//go:build linux

package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth.dev/berth/agent/mps/mpstest"
)

// roleVariable says which of three processes of the test binary this is: ""
// is what `go test` runs, roleInit is process 1 of a test's namespaces, which
// prepares them, and roleTest runs one test inside.
const (
	roleVariable   = "BERTH_NODE_ROLE"
	cgroupVariable = "BERTH_NODE_CGROUP"
	roleInit       = "init"
	roleTest       = "test"
	roleDriver     = "driver" // in a container
)

// kubeletDir is the kubelet's; device plugins find it nowhere else.
const kubeletDir = "/var/lib/kubelet"

// nodeIP is the node's address. A kubelet takes none that is loopback by its
// number; the interface may be. It is one of those kept for benchmarks of
// networks, and exists inside the test's namespace alone.
const nodeIP = "198.18.0.2"

// lacking is why tests are left out; "" is that they run.
var lacking string

// TestMain plays the three roles, and that of MPS's control program.
func TestMain(m *testing.M) {
	if code, ok := mpstest.Main(); ok {
		os.Exit(code)
	}
	switch os.Getenv(roleVariable) {
	case roleInit:
		os.Exit(beInit())
	case roleDriver:
		os.Exit(beDriver())
	case "":
		lacking = missing()
	}
	os.Exit(m.Run())
}

// isolated reports whether the test runs inside namespaces of its own. Where it
// does not, isolated runs it there and reports what came of it, and the test has
// nothing left to do. Where that is impossible, the test is skipped.
func isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(roleVariable) == roleTest {
		return true
	}
	if lacking != "" {
		t.Skip("left out: " + lacking)
	}
	t.Parallel()
	cg, err := newCgroup()
	if err != nil {
		t.Skip("left out: " + err.Error())
	}
	defer func() {
		if err := cg.remove(); err != nil {
			t.Error(err)
		}
	}()
	began := time.Now()
	out, err := runInside(t, cg)
	took := time.Since(began).Round(100 * time.Millisecond)
	for line := range strings.Lines(string(out)) {
		_, figure, isFigure := strings.Cut(line, "figure: ")
		_, check, isCheck := strings.Cut(line, "    --- PASS: "+t.Name()+"/")
		if err == nil && (isFigure || isCheck) {
			t.Log(strings.TrimSpace(figure + strings.ReplaceAll(check, "_", " ")))
		}
	}
	if err != nil {
		t.Errorf("%v after %v:\n%s", err, took, out)
		return false
	}
	t.Logf("%d checks on a real node in %v", bytes.Count(out, []byte("--- PASS: ")), took)
	return false
}

// runInside runs the test's own binary for this one test, as process 1 of new
// namespaces that end when this process ends, however it does.
func runInside(t *testing.T, cg *cgroup) ([]byte, error) {
	runtime.LockOSThread() // the signal of a parent's death is that of its thread
	defer runtime.UnlockOSThread()
	end := time.Now().Add(30 * time.Minute)
	if d, ok := t.Deadline(); ok && d.Add(-10*time.Second).Before(end) {
		end = d.Add(-10 * time.Second)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+time.Until(end).String())
	cmd.Env = append(os.Environ(), roleVariable+"="+roleInit, cgroupVariable+"="+cg.name)
	cmd.SysProcAttr = namespaces()
	return cmd.CombinedOutput()
}

// namespaces are those that a test has for itself. They end with the thread that
// made them.
func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
}

// beInit prepares the namespaces, runs the test and buries every process that
// is left to it: shims of containerd are.
func beInit() int {
	if err := errors.Join(mounts(), network()); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the namespaces:", err)
		return 1
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"="+roleTest)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			fmt.Fprintln(os.Stderr, "wait for the test:", err)
			return 1
		case pid == cmd.Process.Pid && status.Exited():
			return status.ExitStatus()
		case pid == cmd.Process.Pid:
			fmt.Fprintln(os.Stderr, "the test ended by signal", status.Signal())
			return 1
		}
	}
}

// mounts returns the namespace folders of its own wherever a kubelet, containerd
// and runc write: all is memory, and gone with the namespace.
func mounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	kubelet := kubeletDir
	if _, err := os.Stat(kubelet); err != nil {
		kubelet = filepath.Dir(kubelet) // a folder made on the machine would have to be removed, under other runs
	}
	for _, dir := range []string{"/run", "/var/log", kubelet} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	// Small and apart, to be filled by the test of a full disk.
	if err := errors.Join(os.MkdirAll(kubeletDir, 0o750), os.MkdirAll(cdiDir, 0o755)); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", cdiDir, "tmpfs", 0, "mode=755,size=4m"); err != nil {
		return fmt.Errorf("mount %s: %w", cdiDir, err)
	}
	return devices()
}

// devices makes a /dev in memory, so that nodes of GPUs made there are seen by
// nobody else.
func devices() error {
	gpus := realNodes()
	if err := unix.Mount("tmpfs", "/dev", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for _, n := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"kmsg", 1, 11}, {"tty", 5, 0}} {
		path := filepath.Join("/dev", n.name)
		if err := unix.Mknod(path, unix.S_IFCHR, int(unix.Mkdev(n.major, n.minor))); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return err
		}
	}
	if err := os.Mkdir("/dev/pts", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	if err := os.Mkdir("/dev/shm", 0o777); err != nil {
		return err
	}
	return errors.Join(makeReal(gpus), os.Symlink("pts/ptmx", "/dev/ptmx"), os.Symlink("/proc/self/fd", "/dev/fd"))
}

// network brings the loopback interface up and gives it the node's address.
func network() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	address, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := address.SetInet4Addr([]byte{198, 18, 0, 2}); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, address); err != nil {
		return fmt.Errorf("give lo the address %s: %w", nodeIP, err)
	}
	return nil
}
