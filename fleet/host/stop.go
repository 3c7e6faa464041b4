package host

import (
	"syscall"
	"time"
)

// stop sends SIGTERM to the process group, once, and sees to SIGKILL after the
// grace period. why, if not nil, becomes the reason of the end.
func (p *run) stop(grace time.Duration, why *Exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Exit != nil {
		return
	}
	first := !p.stopping
	p.stopping = true
	if first {
		p.refusal = why
		p.signal(syscall.SIGTERM)
	}
	at := time.Now().Add(max(0, grace))
	if !first && !at.Before(p.deadline) {
		return
	}
	p.deadline = at
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(max(0, grace), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.signal(syscall.SIGKILL)
	})
}

// signal sends a signal to the process group while it is certainly ours.
func (p *run) signal(s syscall.Signal) {
	if p.alive {
		_ = syscall.Kill(-p.state.PID, s) // it may be ending
	}
}

// sweep kills what a process that has ended left behind: the rest of its group,
// and, where that can be told, what moved to a group of its own.
func (p *run) sweep(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGKILL) // there may be none
	for range 3 {
		left := marked(p.runner.mark(p.req.Key), false)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}
