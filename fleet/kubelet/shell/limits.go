package shell

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"berth.dev/berth/internal/pause"
)

// Bounds of one command that a client runs, with all that it starts. The shell
// runs in the process of the control plane, which must outlive any script.
const (
	maxTime      = 24 * time.Hour
	maxSteps     = 200_000 // commands, rounds of loops, and KiB that are expanded
	maxProcesses = 32      // stages of pipelines at once
	maxOutput    = 128 << 20
	maxComplaint = 1 << 20 // more than maxOutput, for stderr

	stepsPerPause = 100 // a loop without an end leaves the processor to others
	pauseLength   = 5 * time.Millisecond
)

// Bounds of one expansion and of what a shell keeps.
const (
	maxWordBytes    = 128 << 10 // as Linux limits one argument
	maxArgsBytes    = 256 << 10 // words of one command, or values that go into them
	maxPatternBytes = 8 << 10   // the same where values are matched against patterns
	maxVars         = 1024
	maxVarsBytes    = 256 << 10 // names and values that a script sets
	maxKeptBytes    = 8 << 20   // lines that tail keeps
)

var (
	errTooLong = errors.New("argument list too long")
	errSteps   = errors.New("stopped after 200000 steps: a simulated container is not for computing")
	errOutput  = errors.New("stopped: too much output for a simulated container")
)

// limits counts what one command and all that it starts have used.
type limits struct {
	steps, processes, written, pauses atomic.Int64
}

// step counts one command or round of a loop, and now and then waits. It returns
// an error if there are to be no more.
func (l *limits) step(ctx context.Context) error {
	n := l.steps.Add(1)
	if n > maxSteps {
		return errSteps
	}
	if due := n / stepsPerPause; due > l.pauses.Swap(due) && !pause.For(ctx, pauseLength) {
		return ctx.Err()
	}
	if l.written.Load() > maxOutput {
		return errOutput
	}
	return ctx.Err()
}

// expanded counts n bytes of an expansion.
func (l *limits) expanded(n int) { l.steps.Add(int64(n >> 10)) }

// start counts a process, and reports whether there may be one more.
func (l *limits) start() bool {
	if l.processes.Add(1) > maxProcesses {
		l.processes.Add(-1)
		return false
	}
	return true
}

func (l *limits) end() { l.processes.Add(-1) }

// counted counts what is written to w, up to most for all writers of lim.
type counted struct {
	w    io.Writer
	lim  *limits
	most int64
}

// Write writes b, or returns errOutput.
func (c *counted) Write(b []byte) (int, error) {
	if c.lim.written.Add(int64(len(b))) > c.most {
		return 0, errOutput
	}
	return c.w.Write(b)
}

// bounded passes on the first left bytes and calls full when there are more.
type bounded struct {
	w    io.Writer
	left int
	over bool
	full func()
}

// Write writes b, or returns errTooLong.
func (o *bounded) Write(b []byte) (int, error) {
	if o.left -= len(b); o.left < 0 {
		o.over = true
		o.full()
		return 0, errTooLong
	}
	return o.w.Write(b)
}
