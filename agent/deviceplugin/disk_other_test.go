//go:build !linux

package deviceplugin_test

import (
	"syscall"
	"testing"
)

func smallDisk(t *testing.T) (dir string, full syscall.Errno, done func()) {
	t.Skip("needs Linux: a small file system has to be mounted")
	return "", 0, nil
}
