package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth.dev/berth/test/machine"
)

// result is what became of a part.
type result struct {
	name  string
	took  time.Duration
	cpu   time.Duration // of its processes, and of those that they waited for
	state string        // "", failed, or stopped because another failed or a signal came
	why   []string      // of a part that failed: see failures
}

// runner runs parts and keeps what became of them.
type runner struct {
	// grace is how long a part has to end after it is interrupted, until it is killed:
	// tests end the control planes that they have started.
	grace time.Duration
	// keepGoing is whether the other parts run on after one has failed.
	keepGoing bool

	mu      sync.Mutex // guards out and results
	out     io.Writer
	results []result
	began   time.Time
	load    string        // load average before
	used    machine.Times // by all of the machine, when it began
}

// run runs all parts, until one fails or ctx ends, and reports whether one failed.
func (r *runner) run(ctx context.Context, parts []part) (failed bool) {
	r.began, r.load = time.Now(), loadAverage()
	r.used, _ = machine.CPU() // elsewhere than on Linux it is unknown
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, stage := range stages(parts) {
		var wg sync.WaitGroup
		for _, lane := range lanes(stage) {
			wg.Go(func() {
				for _, p := range lane {
					if ctx.Err() != nil {
						return
					}
					if !r.one(ctx, p) && !r.keepGoing {
						stop()
					}
				}
			})
		}
		wg.Wait()
	}
	for _, res := range r.results {
		failed = failed || res.state == "failed"
	}
	return failed
}

// one runs a part, prints it, and reports whether it passed. The output of a part that
// runs alone is printed as it comes, of any other as one piece at its end, and not at
// all if the part is stopped.
func (r *runner) one(ctx context.Context, p part) bool {
	var kept bytes.Buffer
	cmd := exec.CommandContext(ctx, "nice", "-n", strconv.Itoa(p.nice), "sh", "-c", p.command)
	cmd.Stdout, cmd.Stderr = &kept, &kept
	if p.lane == alone {
		cmd.Stdout, cmd.Stderr = r.out, r.out
	}
	// A group of its own, so that all its processes end together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = r.grace
	r.print("== %s: begins\n", p.name)
	began := time.Now()
	err := cmd.Run()
	res := result{name: p.name, took: time.Since(began)}
	if s := cmd.ProcessState; s != nil {
		res.cpu = s.UserTime() + s.SystemTime()
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		res.state = "stopped"
	default:
		res.state, res.why = "failed", failures(kept.Bytes())
	}
	if err != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // those that did not end when asked
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, res)
	if res.state != "stopped" {
		_, _ = r.out.Write(kept.Bytes())
	}
	fmt.Fprintf(r.out, "== %s: %s after %.0f s\n", p.name, cmp.Or(res.state, "passed"), res.took.Seconds())
	return err == nil
}

func (r *runner) print(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

// table is the time of each part, in the order in which they ended, and of all.
func (r *runner) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%8s  %6s  %s\n", "seconds", "cpu", "part")
	for _, res := range r.results {
		if res.state != "" {
			fmt.Fprintf(&b, "%8s  %6.0f  %s\n", res.state, res.cpu.Seconds(), res.name)
		} else {
			fmt.Fprintf(&b, "%8.0f  %6.0f  %s\n", res.took.Seconds(), res.cpu.Seconds(), res.name)
		}
	}
	for _, res := range r.results {
		for _, line := range res.why {
			fmt.Fprintf(&b, "%8s  %6s  %s\n", "", "", line)
		}
	}
	fmt.Fprintf(&b, "%8.0f  %6s  all, on %d cores%s; load average at the start: %s\n", time.Since(r.began).Seconds(), "", runtime.NumCPU(), busy(r.used), r.load)
	return b.String()
}

func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(raw)); err == nil && len(f) >= 3 {
		return strings.Join(f[:3], " ")
	}
	return "unknown"
}

// busy says how busy the machine was since an earlier time, or nothing where that is unknown.
func busy(since machine.Times) string {
	now, _ := machine.CPU() // elsewhere than on Linux it is unknown
	idle, ok := now.Since(since).Idles()
	if !ok {
		return ""
	}
	return fmt.Sprintf(", %.0f %% busy", 100*(1-idle))
}
