package allocation

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFile, in the folder of CDI specs, is held by the one agent that writes
// there. The kubelet empties its own folder at a start, so it cannot be there.
const lockFile = ".berth-agent.lock"

// lock takes the folder for this process. While another has it, waiting is
// called once and lock waits until the other has ended or ctx has. The lock ends
// with the process, however that ends.
func lock(ctx context.Context, dir string, waiting func(path string)) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the folder of CDI specs: %w", err)
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
		// The call cannot be called off; what it gets goes back at once.
		go func() {
			for range got { // until it has ended
			}
			_ = f.Close()
		}()
		return nil, fmt.Errorf("wait for the agent that holds %s: %w", path, ctx.Err())
	}
}
