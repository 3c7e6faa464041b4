package nvml

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the process when the thread that starts it
// ends, in case the child hangs in the driver and does not see its stdin close.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
