// Package machine says how busy the machine is, for tests and benchmarks that depend on it.
package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc: USER_HZ, 100 on Linux.
const tick = 10 * time.Millisecond

// Times is the time of all cores since the machine started.
type Times struct {
	All  time.Duration
	Idle time.Duration // of All, that in which they had nothing to do, or waited for disks
}

// CPU reads the first line of /proc/stat, see proc_stat(5). The time of guests is part of that of users, and not counted again. There
// is an error, and no time, where it cannot be read, as elsewhere than on Linux.
func CPU() (t Times, err error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, err
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	fields := strings.Fields(line)
	for i, f := range fields[min(1, len(fields)):min(9, len(fields))] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return Times{}, fmt.Errorf("/proc/stat: %w", err)
		}
		t.All += time.Duration(n) * tick
		if i == 3 || i == 4 {
			t.Idle += time.Duration(n) * tick
		}
	}
	return t, nil
}

// Since returns what has passed since an earlier time.
func (t Times) Since(earlier Times) Times {
	return Times{All: t.All - earlier.All, Idle: t.Idle - earlier.Idle}
}

// Idles is the part of the time in which cores had nothing to do, from 0 to 1; ok is false if no time has passed.
func (t Times) Idles() (part float64, ok bool) {
	if t.All <= 0 {
		return 0, false
	}
	return t.Idle.Seconds() / t.All.Seconds(), true
}

// ProcessCPU is the user and system time of a process so far (proc_pid_stat(5), fields 14 and 15).
func ProcessCPU(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // its name, in brackets, may hold blanks
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, raw)
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, raw)
	}
	return time.Duration(user+system) * tick, nil
}
