package mps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// start begins the daemon and puts its limits in force. Only then may shares be
// used: a client that came before would have no limits.
func (m *Manager) start(ctx context.Context, w Want) error {
	for _, dir := range []string{m.pipe(), m.logs()} {
		// Clients of any user come by the pipes.
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // see above
			return fmt.Errorf("create the directory for MPS: %w; change mps-root, or mount it", err)
		}
	}
	if err := m.makeSHM(); err != nil {
		return err
	}
	for _, g := range w.GPUs {
		if err := m.o.SetExclusive(ctx, g.UUID, true); err != nil {
			return fmt.Errorf("set compute mode EXCLUSIVE_PROCESS of GPU %d: %w", g.Index, err)
		}
	}
	m.runs = w // from here on there may be something to stop
	cmd, cancel := m.command(ctx, 6*m.o.Timeout, "-d")
	defer cancel()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s -d: %w%s", m.o.Program, notFound(err), m.lastLog())
	}
	return m.limits(ctx, w)
}

// makeSHM makes the folder for shared memory, open to all users as /dev/shm is.
// One that is not below Root is not made here.
func (m *Manager) makeSHM() error {
	if !strings.HasPrefix(m.o.SHM, m.o.Root+"/") {
		return nil
	}
	err := os.MkdirAll(m.o.SHM, 0o755) //nolint:gosec // see below
	if err == nil {
		err = os.Chmod(m.o.SHM, os.ModeSticky|0o777) //nolint:gosec // as /dev/shm
	}
	if err != nil {
		return fmt.Errorf("create the directory for MPS's shared memory: %w", err)
	}
	return nil
}

// notFound says what to do where the program is missing.
func notFound(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w; install the driver's compute programs, or name the program by mps-program", err)
	}
	return err
}

// limits sets what every client gets unless its environment says less.
func (m *Manager) limits(ctx context.Context, w Want) error {
	n := 1 // no limits of its own
	if w.OneEach {
		n = max(1, w.Replicas)
	}
	for i, g := range w.GPUs {
		line := fmt.Sprintf("set_default_device_pinned_mem_limit %d %s", i, mebibytes(g.MemoryBytes/int64(n)))
		out, err := m.ask(ctx, line)
		if err != nil {
			return err
		}
		if out != "" { // it has no answer but a refusal
			return fmt.Errorf("%s: %s", line, out)
		}
	}
	percent := strconv.Itoa(max(1, 100/n))
	if out, err := m.ask(ctx, "set_default_active_thread_percentage "+percent); err != nil {
		return err
	} else if _, err := strconv.ParseFloat(out, 64); out != "" && err != nil {
		return fmt.Errorf("set_default_active_thread_percentage %s: %s", percent, out)
	}
	got, err := m.percentage(ctx)
	if err != nil {
		return err
	}
	if want, _ := strconv.ParseFloat(percent, 64); got != want {
		return fmt.Errorf("set_default_active_thread_percentage %s: it is still %g", percent, got)
	}
	return nil
}

// percentage asks for the limit of threads, which also says that the daemon
// lives.
func (m *Manager) percentage(ctx context.Context) (float64, error) {
	out, err := m.ask(ctx, "get_default_active_thread_percentage")
	if err != nil {
		return 0, err
	}
	got, err := strconv.ParseFloat(out, 64)
	if err != nil {
		return 0, fmt.Errorf("get_default_active_thread_percentage: %q is not a number", out)
	}
	return got, nil
}

// command makes the program run with the daemon's environment, and end when ctx
// does or after some time.
func (m *Manager) command(ctx context.Context, limit time.Duration, args ...string) (*exec.Cmd, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	cmd := exec.CommandContext(ctx, m.o.Program, args...) //nolint:gosec // the program is an option
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(),
		"CUDA_MPS_PIPE_DIRECTORY="+m.pipe(), "CUDA_MPS_LOG_DIRECTORY="+m.logs(),
		// The daemon numbers GPUs as they are named here, whatever their speed.
		"CUDA_VISIBLE_DEVICES="+strings.Join(m.runs.uuids(), ","))
	return cmd, cancel
}

// ask sends one line and gives the answer, trimmed.
func (m *Manager) ask(ctx context.Context, line string) (string, error) {
	cmd, cancel := m.command(ctx, m.o.Timeout)
	defer cancel()
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(line+"\n"), &out, &errs
	err := cmd.Run()
	answer := strings.TrimSpace(out.String())
	if err != nil {
		if text := strings.TrimSpace(answer + " " + strings.TrimSpace(errs.String())); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		} else if errors.Is(ctx.Err(), context.Canceled) {
			err = ctx.Err()
		}
		return "", fmt.Errorf("%s: %w", line, notFound(err))
	}
	return answer, nil
}

// adopt takes over a daemon that an agent before this one left running. Its
// limits are set again with the first Want of the same GPUs.
func (m *Manager) adopt(ctx context.Context) {
	pid := m.process()
	if pid == 0 {
		return
	}
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return
	}
	for v := range strings.SplitSeq(string(env), "\x00") {
		list, ok := strings.CutPrefix(v, "CUDA_VISIBLE_DEVICES=")
		if !ok || list == "" {
			continue
		}
		for uuid := range strings.SplitSeq(list, ",") {
			m.runs.GPUs = append(m.runs.GPUs, GPU{UUID: uuid})
		}
	}
	if _, err := m.percentage(ctx); err != nil {
		m.stop(ctx)
		return
	}
	m.o.Log.Info("took over the MPS control daemon of the previous agent", "pid", pid)
}

// stop ends the daemon, by its own command or by a signal, and puts compute
// modes back. It is no error that there is none.
func (m *Manager) stop(ctx context.Context) {
	if pid := m.process(); pid != 0 {
		_, err := m.ask(ctx, "quit")
		if !m.gone(pid) {
			m.o.Log.Warn("killed the MPS control daemon", "pid", pid, "error", err)
			_ = syscall.Kill(pid, syscall.SIGKILL)
			m.gone(pid)
		}
	}
	for _, g := range m.runs.GPUs {
		if err := m.o.SetExclusive(ctx, g.UUID, false); err != nil {
			m.o.Log.Warn("cannot restore the compute mode", "uuid", g.UUID, "error", err)
		}
	}
	m.runs, m.misses = Want{}, 0
}

// gone waits for a process that is no child of this one to end, for a second at
// most.
func (m *Manager) gone(pid int) bool {
	for range 100 {
		if m.process() != pid {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// process returns the daemon's process ID, by the file that it writes; 0 is none.
// A process of another name, which has the number now, is none either.
func (m *Manager) process() int {
	text, err := os.ReadFile(filepath.Join(m.pipe(), "nvidia-cuda-mps-control.pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 || syscall.Kill(pid, 0) != nil {
		return 0
	}
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil { // no /proc here
		return pid
	}
	base := filepath.Base(m.o.Program)
	if !strings.HasPrefix(base, strings.TrimSpace(string(name))) {
		return 0
	}
	if stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat")); err == nil && bytes.Contains(stat, []byte(") Z ")) {
		return 0 // ended, and not waited for yet
	}
	return pid
}

// lastLog returns the end of the daemon's own log.
func (m *Manager) lastLog() string {
	text, err := os.ReadFile(filepath.Join(m.logs(), "control.log"))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return "; its log ends with: " + last
	}
	return ""
}
