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
	"time"
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

// instant bounds how long something may last that takes an instant, where its
// process is not held up: a look at who holds a folder, and to leave a number in it.
const instant = 30 * time.Second

// again is how often it is looked whether that is over.
const again = 5 * time.Millisecond

// Lock takes the folder for this process, making it (mode 0700) where it does
// not exist, and returns what gives it back. Others are kept out of it from then on;
// a folder where that is not possible is refused with ErrExposed, and one that holds
// something else with ErrNotOurs, both untouched. The lock is the kernel's (flock),
// so it ends with the process, however it ends. *HeldError says who has it. Whoever
// only looks who holds the folder has a share of the lock in the meantime, and is waited
// for.
func (d Dir) Lock() (release func(), err error) {
	if err := d.claim(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.Join("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w; choose another with --dir", err)
	}
	if err := d.take(f); err != nil {
		_ = f.Close() // only locked, or not even that
		return nil, err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = f.Close() // only locked, or not even that
		return nil, fmt.Errorf("lock data folder %s: %w", d, err)
	}
	return func() {
		_ = f.Truncate(0) // a number that is left is only looked at while a process holds the folder
		_ = f.Close()
	}, nil
}

// claim makes the folder, or keeps others out of one that is this account's.
func (d Dir) claim() error {
	if err := d.Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("make data folder: %w; choose another with --dir", err)
	}
	if err := d.Check(); err != nil { // another account may have been quicker
		return err
	}
	if _, err := d.State(); errors.Is(err, ErrNotOurs) {
		return err
	}
	return d.keepOut()
}

// take locks the lock file for this process alone.
func (d Dir) take(f *os.File) error {
	for end := time.Now().Add(instant); ; time.Sleep(again) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock data folder %s: %w", d, err)
		}
		pid, held, err := holder(f)
		if err != nil {
			return fmt.Errorf("lock data folder %s: %w", d, err)
		}
		if held || time.Now().After(end) {
			return &HeldError{Dir: d, PID: pid}
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil { // so that two that wait do not wait for each other
			return fmt.Errorf("lock data folder %s: %w", d, err)
		}
	}
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
	if pid, held, err = holder(f); err != nil {
		return 0, false, fmt.Errorf("data folder %s: %w", d, err)
	}
	return pid, held, nil
}

// holder says who has the lock file for itself alone. One that has just taken it and
// has not left its number yet is waited for. Where no process has it, the file is locked
// for reading when holder returns.
func holder(f *os.File) (pid int, held bool, err error) {
	for end := time.Now().Add(instant); ; time.Sleep(again) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		if err == nil {
			return 0, false, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return 0, false, err
		}
		if pid := readPID(f); pid != 0 || time.Now().After(end) {
			return pid, true, nil
		}
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
