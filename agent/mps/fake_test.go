package mps_test

import (
	"os"
	"testing"

	"berth.dev/berth/agent/mps/mpstest"
)

// TestMain makes the test binary its own control daemon.
func TestMain(m *testing.M) {
	if code, ok := mpstest.Main(); ok {
		os.Exit(code)
	}
	_ = os.Setenv(mpstest.Variable, mpstest.Program) // of what the tests start
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}
