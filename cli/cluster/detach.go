package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"berth.dev/berth/internal/datadir"
)

// childVariable is set in the environment of the process that goes on in the
// background; its value is when the command that started it began, in
// nanoseconds since 1970.
const childVariable = "BERTH_UP_CHILD"

// beganVariable is set by a script in whose process the program runs: that process is older than the command. Its
// value is as that of childVariable.
const beganVariable = "BERTH_UP_BEGAN"

// childPipe is the file on which that process tells its parent what happens.
const childPipe = 3

// report is one line on the pipe between the two.
type report struct {
	Step   string         `json:"step,omitempty"`
	Detail string         `json:"detail,omitempty"`
	Took   time.Duration  `json:"took,omitempty"`
	Ready  *datadir.State `json:"ready,omitempty"`
	Error  string         `json:"error,omitempty"`
	PID    int            `json:"pid,omitempty"` // with Error: who holds the folder
}

// began is when this command began; for a child, when its parent did.
func began() time.Time {
	if ns, err := strconv.ParseInt(os.Getenv(childVariable), 10, 64); err == nil {
		return time.Unix(0, ns)
	}
	if ns, err := strconv.ParseInt(os.Getenv(beganVariable), 10, 64); err == nil {
		if at := time.Unix(0, ns); time.Since(at) >= 0 && time.Since(at) < time.Minute {
			return at
		}
	}
	return processStart()
}

// detached starts the same command again in a new session, without
// stdin, stdout and stderr, and returns when it is ready or has ended.
func (u *upCommand) detached(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	defer r.Close()
	args := []string{"up", "--dir", string(u.o.Dir), "--port", strconv.Itoa(u.o.Port)}
	if u.o.Fleet != "" {
		args = append(args, "--fleet", u.o.Fleet)
	}
	if u.o.Scheduler != "" {
		args = append(args, "--scheduler", u.o.Scheduler)
	}
	if u.o.Kubernetes != "" {
		args = append(args, "--kubernetes-version", u.o.Kubernetes)
	}
	if u.o.Training != "" {
		args = append(args, "--training", u.o.Training)
	}
	if u.o.Serving != "" {
		args = append(args, "--serving", u.o.Serving)
	}
	if u.o.Notebooks != "" {
		args = append(args, "--notebooks", u.o.Notebooks)
	}
	args = append(args, u.o.NodePolicy.Args()...)
	args = append(args, u.o.UserPolicy.Args()...)
	args = append(args, u.o.LedgerPolicy.Args()...)
	if u.o.NoLedger {
		args = append(args, "--no-ledger")
	}
	if u.o.AutoToleration {
		args = append(args, "--auto-toleration")
	}
	for _, rule := range u.o.HostProcesses {
		args = append(args, "--host-process", rule)
	}
	for _, name := range u.o.HostEnv {
		args = append(args, "--host-env", name)
	}
	if u.o.NewKeys {
		args = append(args, "--new-keys")
	}
	if u.o.HoldScheduler != "" {
		args = append(args, "--hold-scheduler", u.o.HoldScheduler)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, args...) // it outlives this command
	cmd.Env = append(os.Environ(), childVariable+"="+strconv.FormatInt(u.o.Began.UnixNano(), 10))
	cmd.ExtraFiles = []*os.File{w} // file 3; stdin, stdout and stderr are /dev/null
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = w.Close() // the child has its own
	if err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	// Interrupted while it waits, the parent takes the child with it.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
	if err := u.follow(r); err != nil {
		_ = cmd.Wait() // why it ended, err says
		return err
	}
	return cmd.Process.Release()
}

// follow shows what the child reports until it is ready.
func (u *upCommand) follow(r *os.File) error {
	p := newProgress(u.err, u.o.Dir, u.output != "json")
	p.start()
	defer p.end()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var m report
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("read from the background process: %w", err)
		}
		switch {
		case m.Error != "":
			return errors.New(m.Error)
		case m.Ready != nil:
			p.ready(*m.Ready)
			if u.output == "json" {
				return u.printJSON(*m.Ready)
			}
			printAddresses(u.err, u.o.Dir, *m.Ready)
			printHints(u.err, u.o.Dir, true, m.Ready.HostProcesses)
			return nil
		default:
			p.step(m.Step, m.Detail, m.Took)
		}
	}
	return fmt.Errorf("the background process exited before it was ready; see its log in %s", u.o.Dir.Logs())
}

// child is the background process: it reports on the pipe and closes it when
// ready.
func (u *upCommand) child(ctx context.Context) error {
	_ = os.Unsetenv(childVariable) // not for what this process starts
	pipe := os.NewFile(childPipe, "parent")
	enc := json.NewEncoder(pipe)
	tell := func(r report) { _ = enc.Encode(r) } // not read once it is ready, or once the parent was killed
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	u.o.Step = func(name, detail string, took time.Duration) {
		tell(report{Step: name, Detail: detail, Took: took})
	}
	u.o.Died = func(err error) { tell(report{Error: err.Error()}) }
	u.o.Ready = func(s datadir.State) {
		tell(report{Ready: &s})
		_ = pipe.Close()
	}
	err := u.run(ctx, u.o)
	if err != nil {
		tell(report{Error: err.Error()})
	}
	return err
}
