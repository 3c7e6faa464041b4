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

	"berth.dev/berth/test/machine"
)

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
	if p.ready, err = machine.ProcessCPU(p.PID); err != nil {
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
	times, err := machine.CPU()
	if err != nil {
		return stopwatch{}, err
	}
	self, err := machine.ProcessCPU(os.Getpid())
	return stopwatch{time.Now(), times.All - times.Idle, self}, err
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
