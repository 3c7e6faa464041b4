package cluster

import (
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"berth.dev/berth/internal/visible"
)

// quiet keeps what libraries write to file descriptor 2 off the terminal while
// the control plane runs: it goes to log/stderr.log in the data folder, once
// the folder is there. u.err goes on to the terminal. restore undoes it.
func (u *upCommand) quiet() (restore func()) {
	if visible.To(u.err) != os.Stderr {
		return func() {}
	}
	kept, err := unix.Dup(unix.Stderr)
	if err != nil {
		return func() {}
	}
	unix.CloseOnExec(kept)
	terminal := os.NewFile(uintptr(kept), "stderr")
	u.err = visible.NewWriter(terminal)
	_ = debug.SetCrashOutput(terminal, debug.CrashOptions{}) // a panic is shown as ever; else it is in the log
	u.o.Laid = func() {
		f, err := os.OpenFile(u.o.Dir.Join("log", "stderr.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return // the log folder was writable an instant ago; the terminal will do
		}
		defer f.Close()
		redirect(int(f.Fd()), unix.Stderr)
	}
	return func() {
		redirect(kept, unix.Stderr)
		_ = terminal.Close() // a second name of what stays open
		u.err = visible.NewWriter(os.Stderr)
	}
}
