package nvml

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// grace is how long a child may take to end after its stdin is closed.
const grace = 2 * time.Second

// errLingers is why a child that was given its grace is killed. It says nothing of
// one that had ended by then.
var errLingers = errors.New("it did not exit")

// child is one process, from before its start until it has been waited for.
type child struct {
	up   chan struct{} // closed when it said hello
	gone chan struct{} // closed when it is no more
	turn chan struct{} // one value: the right to send a request

	mu      sync.Mutex
	in      io.Writer
	process *os.Process // nil before the start and after the end
	cause   error       // why it is being killed
	lastID  int64
	pending *pending // the one request in flight
	tail    []string // last lines of its stderr

	why error // why it ended; read it after gone
}

// pending is a request without its answer.
type pending struct {
	id    int64
	to    chan answer // holds one
	timer *time.Timer
}

func newChild() *child {
	ch := &child{up: make(chan struct{}), gone: make(chan struct{}), turn: make(chan struct{}, 1)}
	ch.turn <- struct{}{}
	return ch
}

// ask sends a request and waits for the answer.
func (ch *child) ask(ctx context.Context, limit time.Duration, r request) (answer, error) {
	for _, ready := range []chan struct{}{ch.up, ch.turn} {
		select {
		case <-ready:
		case <-ch.gone:
			return answer{}, ch.why
		case <-ctx.Done():
			return answer{}, ctx.Err()
		}
	}
	// The turn is held: it comes back with the answer, and never when the child
	// ends first.
	p := &pending{to: make(chan answer, 1)}
	ch.mu.Lock()
	ch.lastID++
	p.id, r.ID = ch.lastID, ch.lastID
	p.timer = time.AfterFunc(limit, func() {
		ch.kill(fmt.Errorf("no answer to %q within %v, so it was killed", r.Call, limit))
	})
	ch.pending = p
	in := ch.in
	ch.mu.Unlock()
	if err := writeLine(in, r); err != nil {
		ch.kill(fmt.Errorf("cannot write to its stdin: %w", err))
	}
	select {
	case a := <-p.to:
		return a, nil
	case <-ch.gone:
		p.timer.Stop()
		select {
		case a := <-p.to: // it answered just before
			return a, nil
		default:
		}
		return answer{}, fmt.Errorf("%w, during this call", ch.why)
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// kill ends the process; the first cause counts.
func (ch *child) kill(cause error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.cause == nil {
		ch.cause = cause
	}
	if ch.process != nil {
		_ = ch.process.Kill() // it may just have ended
	}
}

// processID is 0 when it does not run.
func (ch *child) processID() int {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.process == nil {
		return 0
	}
	return ch.process.Pid
}

// lazily returns the environment without LD_BIND_NOW. The child names functions
// that no driver has all of; bound at the start, it would end there.
func lazily(env []string) []string {
	if env == nil {
		env = os.Environ()
	}
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "LD_BIND_NOW=") })
}

// run starts the process and returns when it is no more, with ch.why set and
// ch.gone closed.
func (ch *child) run(ctx context.Context, c *Client) {
	defer close(ch.gone)
	defer func() {
		if p := ch.take(0); p != nil {
			p.timer.Stop()
		}
	}()
	if ctx.Err() != nil {
		ch.why = fmt.Errorf("%w: stopped", ErrGone)
		return
	}
	cmd := exec.Command(c.o.Command[0], c.o.Command[1:]...) //nolint:noctx // ended by closing its stdin first
	cmd.Env = lazily(c.o.Env)
	dieWithParent(cmd)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	stderr, err3 := cmd.StderrPipe()
	err := errors.Join(err1, err2, err3)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		ch.why = fmt.Errorf("%w: cannot start %s: %w", ErrGone, c.o.Command[0], err)
		return
	}
	ch.mu.Lock()
	ch.in, ch.process = in, cmd.Process
	ch.mu.Unlock()
	c.o.Log.Info("the NVML child runs", "pid", cmd.Process.Pid)

	stop := context.AfterFunc(ctx, func() { _ = in.Close() })
	defer stop()
	late := context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, func() { ch.kill(fmt.Errorf("its stdin was closed: %w", errLingers)) })
	})
	defer late()
	logged := make(chan struct{})
	go func() { defer close(logged); ch.log(stderr, c) }()
	err = ch.listen(out, c)
	if ctx.Err() == nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("its stdout cannot be understood: %w", err)
		ch.kill(err)
	}
	// Its stdout is closed: it ends by itself, or is made to.
	last := time.AfterFunc(grace, func() { ch.kill(fmt.Errorf("it closed its stdout: %w", errLingers)) })
	<-logged
	_ = cmd.Wait() // ProcessState tells
	last.Stop()
	ch.mu.Lock()
	ch.process = nil
	ch.why = fmt.Errorf("%w: %w", ErrGone, ending(cmd.ProcessState, ch.cause, ch.tail))
	ch.mu.Unlock()
}

// listen reads lines until out ends, which is io.EOF.
func (ch *child) listen(out io.Reader, c *Client) error {
	r := newLines(out)
	for hello := false; ; {
		var a answer
		if err := r.next(&a); err != nil {
			return err
		}
		switch {
		case a.Hello != 0 && a.Hello != protocol:
			return fmt.Errorf("it speaks protocol %d and not %d; install agent and child of one release", a.Hello, protocol)
		case a.Hello != 0:
			if !hello {
				hello = true
				close(ch.up)
			}
			c.signal()
		case a.Event != nil:
			c.emit(*a.Event)
		case a.Changed:
			c.signal()
		case a.ID != 0:
			if p := ch.take(a.ID); p != nil {
				p.timer.Stop()
				p.to <- a
				ch.turn <- struct{}{}
			}
		}
	}
}

// take returns the request in flight, if it has the ID or ID is 0, and forgets
// it.
func (ch *child) take(id int64) *pending {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	p := ch.pending
	if p == nil || id != 0 && p.id != id {
		return nil
	}
	ch.pending = nil
	return p
}

// log passes the child's stderr on and keeps its last lines.
func (ch *child) log(stderr io.Reader, c *Client) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		c.o.Log.Info("NVML child", "stderr", lines.Text())
		ch.mu.Lock()
		if ch.tail = append(ch.tail, strings.TrimSpace(lines.Text())); len(ch.tail) > 3 {
			ch.tail = ch.tail[1:]
		}
		ch.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, stderr) // a line too long: let the child go on
}

// ending says how a process ended, and what of that is known to mean.
func ending(state *os.ProcessState, cause error, tail []string) error {
	text := state.String()
	if cause != nil && !(errors.Is(cause, errLingers) && state.Exited()) {
		text = cause.Error()
	}
	if state.ExitCode() == 127 {
		text += ": the driver lacks a function that was called; update the driver"
	}
	if len(tail) > 0 {
		text += ": " + strings.Join(tail, " | ")
	}
	return errors.New(text)
}
