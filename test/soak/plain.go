package soak

import (
	"os"
	"testing"
)

// Plainly skips a long test under the race detector, except in a soak: with other seeds or faults it repeats
// the same steps, and would take ten to twenty times as long. tools/test.sh runs the packages that call it
// without the detector as well.
func Plainly(t *testing.T) {
	t.Helper()
	if raced && os.Getenv(Variable) == "" {
		t.Skip("this test runs without the race detector, and under it in make soak")
	}
}
