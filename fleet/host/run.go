package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// pipeWait is how long the log of a process that has ended is still read, when
// something that it left behind keeps it open.
const pipeWait = 2 * time.Second

// mostPiped is the most that a pipe of a user's process holds on Linux: see
// /proc/sys/fs/pipe-max-size. It has 64 KiB by default.
const mostPiped = 1 << 20

// run is one process from its request to its end.
type run struct {
	runner *Runner
	req    Request
	done   chan struct{} // closed when nothing of it is left

	mu       sync.Mutex
	state    State
	out      *output
	alive    bool        // the process was started and not yet waited for
	stopping bool        // it was told to end
	deadline time.Time   // when it is killed
	timer    *time.Timer // that does so
	refusal  *Exit       // why it was told to end, where the pod did not ask
}

// live is the whole life of a run, on its own goroutine.
func (p *run) live() {
	defer close(p.done)
	cmd, read, err := p.start()
	if err != nil {
		p.end(Exit{At: time.Now(), Code: 128, Reason: ReasonStart, Message: err.Error()})
		return
	}
	defer p.runner.free(p.state.Port)
	ctx, cancel := context.WithCancel(context.Background())
	var watching, reading sync.WaitGroup
	reading.Go(func() { p.read(read) })
	watching.Go(func() { p.watch(ctx) })
	p.req.Changed()
	err = cmd.Wait()
	at := time.Now()
	p.mu.Lock()
	p.alive = false
	if p.timer != nil {
		p.timer.Stop()
	}
	exit := exitOf(cmd, err, at)
	if p.refusal != nil {
		exit.Reason, exit.Message = p.refusal.Reason, p.refusal.Message
	}
	p.mu.Unlock()
	cancel()
	watching.Wait()
	p.sweep(cmd.Process.Pid)
	_ = read.SetReadDeadline(time.Now().Add(pipeWait)) // what still holds the pipe was not found
	reading.Wait()
	_ = errors.Join(read.Close(), os.Remove(p.pidPath()))
	p.end(exit)
}

// end notes that the run is over, and tells who asked for it.
func (p *run) end(e Exit) {
	p.mu.Lock()
	p.state.Exit, p.state.Ready = &e, false
	if p.out != nil {
		p.out.close(e.At)
	}
	p.mu.Unlock()
	p.req.Changed()
}

// start prepares the folders and the command, and starts it.
func (p *run) start() (*exec.Cmd, *os.File, error) {
	r, k := p.runner, p.req.Key
	if !k.local() {
		return nil, nil, fmt.Errorf("%s is not a valid directory name", k)
	}
	home, err := p.folders()
	if err != nil {
		return nil, nil, err
	}
	r.keep(k)
	port, err := r.port()
	if err != nil {
		return nil, nil, err
	}
	cmd, err := p.command(home, port)
	if err != nil {
		r.free(port)
		return nil, nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		r.free(port)
		return nil, nil, fmt.Errorf("make a pipe for its log: %w", err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	started := make(chan error)
	r.starts <- func() { started <- p.launch(cmd, home, port) }
	err = errors.Join(<-started, write.Close())
	if err != nil {
		r.free(port)
		return nil, nil, errors.Join(err, read.Close())
	}
	return cmd, read, nil
}

// launch forks, unless the run was told to end before.
func (p *run) launch(cmd *exec.Cmd, home string, port int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return errors.New("its pod was stopped before it was started")
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	p.alive, p.out = true, newOutput(p.runner.logPath(p.req.Key))
	p.state.PID, p.state.Port, p.state.Home, p.state.Command = cmd.Process.Pid, port, home, cmd.Args
	if err := writePID(p.pidPath(), cmd.Process.Pid); err != nil {
		p.runner.o.Log.Warn("a host process has no pid file", "pod", p.req.Namespace+"/"+p.req.Pod, "error", err)
	}
	return nil
}

// folders makes the home and the folder of the log.
func (p *run) folders() (home string, err error) {
	r := p.runner
	home = filepath.Join(r.podDir(p.req.UID), "home")
	if p.req.Claim != "" {
		if home, err = r.claimDir(p.req.Namespace, p.req.Claim, p.req.SubPath); err != nil {
			return "", err
		}
	}
	err = errors.Join(os.MkdirAll(home, 0o700), os.MkdirAll(r.runDir(p.req.Key), 0o700))
	if err != nil {
		return "", fmt.Errorf("make the folders of pod %s/%s: %w", p.req.Namespace, p.req.Pod, err)
	}
	return home, nil
}

// command is the rule's command in its home, with its environment.
func (p *run) command(home string, port int) (*exec.Cmd, error) {
	r, req := p.runner, p.req
	container := req.Environ()
	prefix := value(container, "NB_PREFIX")
	words, err := fill(req.Rule.Words, port, prefix, home)
	if err != nil {
		return nil, err
	}
	path, err := program(words[0])
	if err != nil {
		return nil, req.Rule.explain(err)
	}
	number := strconv.Itoa(port)
	own := []string{
		"HOME=" + home, "PWD=" + home, "PORT=" + number, "BERTH_PORT=" + number, "BERTH_HOME=" + home,
		"BERTH_NAMESPACE=" + req.Namespace, "BERTH_POD=" + req.Pod, "BERTH_CONTAINER=" + req.Container,
		markName + "=" + r.mark(req.Key),
	}
	if req.GPUs {
		bin, err := r.smi()
		if err != nil {
			return nil, err
		}
		own = append(own, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	cmd := &exec.Cmd{Path: path, Args: words, Dir: home, SysProcAttr: attributes()}
	var left []string
	cmd.Env, left = Environ(os.Environ(), container, own, r.o.Pass)
	p.mu.Lock()
	p.state.LeftOut = left
	p.mu.Unlock()
	return cmd, nil
}

// read copies what the process prints into its log, until its end. Where reading
// is ended by its deadline, what lies in the pipe already still counts: a process that
// reads may have been late.
func (p *run) read(from *os.File) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.out.write(buf[:n], time.Now())
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.rest(from, buf)
		}
		if err != nil {
			return
		}
	}
}

// rest copies what lies in the pipe, and no more than a pipe holds: something that
// still writes would never let it end.
func (p *run) rest(from *os.File, buf []byte) {
	raw, err := from.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // the file is open
		for sum := 0; sum < mostPiped; {
			n, err := syscall.Read(int(fd), buf)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if n <= 0 {
				return // nothing is there: reading does not wait
			}
			p.out.write(buf[:n], time.Now())
			sum += n
		}
	})
}

// now returns the state.
func (p *run) now() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state
	s.Lines = func() []Line { return nil }
	if p.out != nil {
		s.Lines = p.out.all
	}
	return s
}

func (p *run) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Exit != nil
}

// setReady notes whether the process answers, and tells who asked for it if that
// is new.
func (p *run) setReady(ready bool) {
	p.mu.Lock()
	news := p.alive && p.state.Ready != ready
	if news {
		p.state.Ready = ready
	}
	p.mu.Unlock()
	if news {
		p.req.Changed()
	}
}

// pidPath is the file that names the process for the next Runner.
func (p *run) pidPath() string { return filepath.Join(p.runner.runDir(p.req.Key), pidFile) }

// exitOf reads how a command ended, in the way container runtimes say it.
func exitOf(cmd *exec.Cmd, err error, at time.Time) Exit {
	e := Exit{At: at, Code: int32(cmd.ProcessState.ExitCode())}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Code = 128 + int32(ws.Signal())
	}
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		e.Message = strings.TrimSpace(err.Error())
	}
	return e
}
