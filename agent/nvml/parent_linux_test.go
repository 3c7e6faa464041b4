package nvml_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTheChildNeverOutlivesItsParent kills the parent while the child hangs in
// the driver, and so cannot see its stdin close.
func TestTheChildNeverOutlivesItsParent(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "gpus.yaml")
	if err := os.WriteFile(file, []byte(twoH100+"hang: [{call: nvmlInit_v2}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "BERTH_TEST_ROLE=parent", "BERTH_TEST_FILE="+file)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	child, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Skipf("no pidfd_open here: %v", err)
	}
	defer func() { _ = unix.Close(child) }()
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed
	n, err := 0, error(unix.EINTR)
	for end := time.Now().Add(2 * time.Minute); errors.Is(err, unix.EINTR) && time.Now().Before(end); { // by the end of another test's child
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(child), Events: unix.POLLIN}}, int(time.Until(end).Milliseconds()))
	}
	if err != nil || n != 1 {
		t.Errorf("the child lives two minutes after its parent: poll = %d, %v", n, err)
	}
}
