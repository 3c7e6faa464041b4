package deviceplugin_test

import (
	"os"
	"syscall"
	"testing"
)

// smallDisk is a file system for some twenty files, and the error of one that
// is full.
func smallDisk(t *testing.T) (dir string, full syscall.Errno, done func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: a small file system has to be mounted")
	}
	dir = folder(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "nr_inodes=20,size=1m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	return dir, syscall.ENOSPC, func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}
}
