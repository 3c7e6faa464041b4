//go:build !linux

package deviceplugin_test

import "testing"

func smallDisk(t *testing.T) (dir string, full error, done func()) {
	t.Skip("needs Linux: a small file system has to be mounted")
	return "", nil, nil
}
