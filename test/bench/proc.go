package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc: USER_HZ, 100 on Linux.
const tick = 10 * time.Millisecond

// cpu is the user and system time of a process so far (proc(5), fields 14, 15).
func cpu(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, raw)
	}
	return time.Duration(user+system) * tick, nil
}

// machineCPU is the time all processors were not idle so far (/proc/stat, all
// columns but idle and iowait; guest time is part of user time).
func machineCPU() (time.Duration, error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	var sum int64
	for i, f := range strings.Fields(line)[1:9] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		if i != 3 && i != 4 {
			sum += n
		}
	}
	return time.Duration(sum) * tick, nil
}

// memory is a process's resident memory in MB (10^6 bytes).
func memory(pid int) (float64, error) { return statusMB(pid, "VmRSS:") }

// privateMemory is that part of memory which no file backs: what a process has to itself. Pages of the program, which are as many as were
// looked at, are shared by all that run it, and given up first.
func privateMemory(pid int) (float64, error) { return statusMB(pid, "RssAnon:") }

// peakMemory is the most that it was so far.
func peakMemory(pid int) (float64, error) { return statusMB(pid, "VmHWM:") }

// statusMB is a line of a process's status that is in KiB, in MB.
func statusMB(pid int, name string) (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s", pid, strings.TrimSuffix(name, ":"))
}

// load is the machine's load average over the last minute.
func load() float64 {
	raw, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(raw), " ")
	n, _ := strconv.ParseFloat(first, 64)
	return n
}

// plane is a control plane that runs in the background.
type plane struct {
	Kubeconfig, Dir string
	PID             int
	Seconds         float64
	Nodes, GPUs     int
	ready           time.Duration // CPU of the process when it was ready
	busy            bool          // something else used the machine while it started
}

// up starts one. The CPU time is read at once after it says that it is ready.
func up(dir, fleet string, more ...string) (*plane, error) {
	args := append([]string{"up", "--detach", "-o", "json", "--dir", dir, "--fleet", fleet}, more...)
	watch, err := startWatch()
	if err != nil {
		return nil, err
	}
	out, err := berth(args...)
	if err != nil {
		return nil, err
	}
	var p plane
	if err := json.Unmarshal(out, &p); err != nil {
		return nil, fmt.Errorf("berth up printed %q: %w", out, err)
	}
	if p.ready, err = cpu(p.PID); err != nil {
		return nil, err
	}
	_, _, p.busy, err = watch.stop(p.ready)
	return &p, err
}

// down stops it, removing the folder if purge, and returns how long that took.
func (p *plane) down(purge bool) (time.Duration, error) {
	args := []string{"down", "--dir", p.Dir}
	if purge {
		args = append(args, "--purge")
	}
	began := time.Now()
	_, err := berth(args...)
	return time.Since(began), err
}

func berth(args ...string) ([]byte, error) {
	cmd := exec.Command(program(), args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("berth %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out, nil
}

// stopwatch measures a span: its wall time, the CPU of the whole machine, and
// that of this program.
type stopwatch struct {
	began     time.Time
	all, self time.Duration
}

func startWatch() (stopwatch, error) {
	all, err := machineCPU()
	if err != nil {
		return stopwatch{}, err
	}
	self, err := cpu(os.Getpid())
	return stopwatch{time.Now(), all, self}, err
}

// stop returns the wall time, the CPU of the machine, and whether something
// else than this program and what it measures (which used own) kept the machine
// busy: more than 15% of one core.
func (w stopwatch) stop(own time.Duration) (wall, all time.Duration, busy bool, err error) {
	end, err := startWatch()
	if err != nil {
		return 0, 0, false, err
	}
	wall, all = end.began.Sub(w.began), end.all-w.all
	others := all - own - (end.self - w.self)
	return wall, all, others.Seconds() > 0.15*wall.Seconds(), nil
}

// program is what is measured: bin/berth, or what $BERTH_BIN names.
func program() string { return cmp.Or(os.Getenv("BERTH_BIN"), filepath.Join("bin", "berth")) }
