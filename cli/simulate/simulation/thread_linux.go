package simulation

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadSeconds is the CPU time that the calling thread has used. The collector
// of garbage runs on other threads and is not in it.
func threadSeconds() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return float64(time.Now().UnixNano()) / 1e9
	}
	return float64(t.Nano()) / 1e9
}
