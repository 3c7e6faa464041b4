package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// HeldError says that another process holds the data folder.
type HeldError struct {
	Dir Dir
	PID int // 0 when it is not known
}

// Error names the folder and the process.
func (e *HeldError) Error() string {
	return fmt.Sprintf("data folder %s is in use by process %d", e.Dir, e.PID)
}

// Lock takes the folder for this process, making it (mode 0700) where it does
// not exist, and returns what gives it back. The lock is the kernel's (flock),
// so it ends with the process, however it ends. *HeldError says who has it.
func (d Dir) Lock() (release func(), err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w; choose another with --dir", err)
	}
	f, err := os.OpenFile(d.Join("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w; choose another with --dir", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		pid := readPID(f)
		_ = f.Close() // only locked, or not even that
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &HeldError{Dir: d, PID: pid}
		}
		return nil, fmt.Errorf("lock data folder %s: %w", d, err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = f.Close() // only locked, or not even that
		return nil, fmt.Errorf("lock data folder %s: %w", d, err)
	}
	return func() { _ = f.Close() }, nil
}

// Holder is the process that holds the folder, and whether one does.
func (d Dir) Holder() (pid int, held bool, err error) {
	f, err := os.Open(d.Join("lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("data folder %s: %w", d, err)
	}
	defer f.Close()
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); {
	case err == nil:
		return 0, false, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return readPID(f), true, nil
	default:
		return 0, false, fmt.Errorf("data folder %s: %w", d, err)
	}
}

func readPID(f *os.File) int {
	raw, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0
	}
	return pid
}
