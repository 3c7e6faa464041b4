package mps

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// patience is how many answers may be missed in a row before a daemon that
// still runs is ended: its clients may do well all the same.
const patience = 3

// Run works until ctx ends. Then the daemon is stopped and compute modes are put
// back, unless a pod holds shares: then it is left to the next agent, which
// takes it over.
func (m *Manager) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			m.end()
			return
		case <-m.poked:
		case <-timer.C:
		}
		next := m.round(ctx)
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// end is the end of Run. A daemon that was not started or taken over is somebody
// else's.
func (m *Manager) end() {
	if len(m.runs.GPUs) == 0 {
		return
	}
	if by := m.o.Busy(); len(by) > 0 {
		m.o.Log.Info("the MPS control daemon keeps running for pods that hold shares", "holders", by)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*m.o.Timeout+2*time.Second)
	defer cancel()
	m.stop(ctx)
}

// look takes over a daemon that runs already, once, as soon as it may; until then it
// says why it may not.
func (m *Manager) look(ctx context.Context) (why string) {
	if m.looked {
		return ""
	}
	if m.process() != 0 {
		if why := m.o.Wait(ctx); why != "" {
			return why
		}
	}
	m.looked = true
	m.adopt(ctx)
	return ""
}

// round brings the daemon to what is wanted, or asks whether it lives. It gives
// when to come again; 0 is only when poked.
func (m *Manager) round(ctx context.Context) time.Duration {
	m.tell()
	m.mu.Lock()
	want := m.want
	m.mu.Unlock()
	if why := m.look(ctx); why != "" {
		m.sayAll(why)
		return m.o.Interval
	}
	running := len(m.runs.GPUs) > 0
	if running && m.dead(ctx) {
		m.o.Log.Warn("the MPS control daemon is restarted")
		m.stop(ctx)
		running = false
	}
	switch {
	case ctx.Err() != nil:
		return 0
	case !running && len(want.GPUs) == 0:
		m.sayServed()
		return 0
	case running && m.misses > 0:
		m.sayAll(fmt.Sprintf("the MPS control daemon does not answer (%d of %d times); its pods can continue", m.misses, patience))
		return m.o.Interval
	case running && want.equal(m.runs):
		m.sayServed()
		return m.o.Interval
	case running && sameGPUs(want, m.runs):
		if err := m.limits(ctx, want); err != nil {
			m.sayAll("the MPS control daemon refuses limits: " + err.Error())
			return m.o.Interval
		}
		m.runs = want
		m.sayServed()
		return m.o.Interval
	case running:
		if by := m.o.Busy(); len(by) > 0 {
			m.say(func(uuid string) string {
				if slices.Contains(m.runs.uuids(), uuid) {
					return ""
				}
				return "the MPS control daemon changes its GPUs once no pod holds shares: now " + strings.Join(by, ", ")
			})
			return m.o.Interval
		}
		m.stop(ctx)
		if len(want.GPUs) == 0 {
			m.sayServed()
			return 0
		}
	}
	if wait := time.Until(m.notBefore); wait > 0 && want.equal(m.refused) {
		return wait // until the next poke
	}
	if why := m.o.Wait(ctx); why != "" {
		m.sayAll(why)
		return m.o.Interval
	}
	if err := m.start(ctx, want); err != nil {
		m.o.Log.Warn("the MPS control daemon does not start", "error", err)
		m.stop(ctx)
		m.sayAll("the MPS control daemon does not start: " + err.Error())
		m.failures++
		wait := min(m.o.Backoff<<min(m.failures-1, 5), 30*m.o.Backoff)
		m.refused, m.notBefore = want, time.Now().Add(wait)
		return wait
	}
	m.failures = 0
	m.runs = want
	m.sayServed()
	return m.o.Interval
}

func sameGPUs(a, b Want) bool { return slices.Equal(a.uuids(), b.uuids()) }

// dead asks the daemon whether it lives. A daemon whose process is gone is dead
// at once, one that does not answer after some patience.
func (m *Manager) dead(ctx context.Context) bool {
	_, err := m.percentage(ctx)
	if err == nil || ctx.Err() != nil {
		m.misses = 0
		return false
	}
	m.misses++
	m.o.Log.Warn("the MPS control daemon does not answer", "error", err, "times", m.misses)
	if m.process() == 0 || m.misses >= patience {
		m.misses = 0
		return true
	}
	return false
}
