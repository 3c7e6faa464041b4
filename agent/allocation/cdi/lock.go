package cdi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFile, in the directory of CDI specs, is locked by the one agent that writes
// there. The kubelet empties its own directory when it starts, so the lock cannot
// be there.
const lockFile = ".berth-agent.lock"

// Lock locks the directory for this process. While another process has it, Lock
// calls waiting once, and waits until the other has exited or ctx is done. The
// lock ends with the process, however that ends.
func Lock(ctx context.Context, dir string, waiting func(path string)) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the CDI spec directory: %w", err)
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		return f, nil
	}
	waiting(path)
	got := make(chan error, 1)
	go func() {
		defer close(got)
		for {
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
				got <- err
				return
			}
		}
	}()
	select {
	case err := <-got:
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return f, nil
	case <-ctx.Done():
		// The system call cannot be canceled; the lock is released as soon as it is had.
		go func() {
			for range got { // until it has returned
			}
			_ = f.Close()
		}()
		return nil, fmt.Errorf("wait for the agent that holds %s: %w", path, ctx.Err())
	}
}
