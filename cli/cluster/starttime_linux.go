package cluster

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clockTicks is the unit of start times in /proc: USER_HZ, 100 on every Linux
// that Go supports.
const clockTicks = 100

// processStart is when this process was started (proc(5), /proc/self/stat field
// 22: ticks since boot), or now where that cannot be read.
func processStart() time.Time {
	now := time.Now()
	raw, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return now
	}
	// Field 2 is the program's name in brackets, which may hold blanks.
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return now
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	var up unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return now
	}
	age := time.Duration(up.Nano()) - time.Duration(ticks)*time.Second/clockTicks
	if age < 0 || age > time.Minute {
		return now
	}
	return now.Add(-age)
}
