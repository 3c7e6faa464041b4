package host

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	askEvery   = 200 * time.Millisecond // until it is ready
	askLater   = time.Second            // and after askLong, as starts that take so long take longer
	askLong    = time.Minute
	lookEvery  = 10 * time.Second // at its sockets, once it is
	askTimeout = time.Second      // for one answer
)

// watch looks until ctx ends whether the process answers, and where it listens.
// One that listens beyond loopback is ended.
func (p *run) watch(ctx context.Context) {
	s := p.now()
	a := asker{probe: p.req.Probe, address: net.JoinHostPort("127.0.0.1", fmt.Sprint(s.Port))}
	defer a.close()
	began, ready := time.Now(), false
	for {
		answers := ready || p.req.Probe.None
		if !p.req.Probe.None && time.Since(began) >= p.req.Probe.Delay && (!ready || p.req.Probe.Every > 0) {
			answers = a.ask(ctx, ready)
		}
		// After the answer and before it counts: who could be asked listens already.
		if where := beyond(p.runner.mark(p.req.Key), s.PID); len(where) > 0 {
			p.stop(refuseGrace, &Exit{Reason: ReasonRefused, Message: refusal(p.req.Rule, where)})
			return
		}
		if answers != ready {
			ready = answers
			p.setReady(ready)
		}
		wait := askEvery
		if time.Since(began) > askLong {
			wait = askLater
		}
		if young := p.req.Probe.None && time.Since(began) <= askLong; ready && !young { // one that is not asked may listen at any time
			wait = lookEvery
			if every := p.req.Probe.Every; every > 0 {
				wait = min(wait, max(every, askEvery))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// refusal says where a process listened, and what to do.
func refusal(r Rule, where []netip.AddrPort) string {
	var list []string
	for _, a := range where {
		list = append(list, a.String())
	}
	return fmt.Sprintf("the host process of %s listened on %s, and a host process may listen on loopback only; "+
		"give its command an option such as --ip=127.0.0.1", r.Pattern, strings.Join(list, " and "))
}

// Listens reports whether a process listens at a port of 127.0.0.1. It is false on systems that do not tell.
func Listens(pid, port int) bool {
	return pid != 0 && slices.ContainsFunc(listeners([]int{pid}), func(a netip.AddrPort) bool {
		return int(a.Port()) == port && a.Addr().Unmap().IsLoopback()
	})
}

// beyond returns where the processes of a run listen beyond loopback, sorted.
// Nil is nowhere, or that this system does not tell.
func beyond(mark string, pid int) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range listeners(append(marked(mark, false), pid)) {
		if !a.Addr().Unmap().IsLoopback() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// asker asks whether a process is ready, as its Probe says.
type asker struct {
	probe    Probe
	address  string
	row      int // answers in a row that speak against the state
	client   *http.Client
	asked    bool
	lastTime time.Time
}

// ask asks once, and returns whether the process counts as ready, given whether
// it did.
func (a *asker) ask(ctx context.Context, ready bool) bool {
	if a.asked && ready && time.Since(a.lastTime) < a.probe.Every {
		return ready
	}
	a.asked, a.lastTime = true, time.Now()
	need := a.probe.Successes
	if ready {
		need = a.probe.Failures
	}
	if a.answers(ctx) == ready {
		a.row = 0
		return ready
	}
	a.row++
	if a.row < max(1, need) {
		return ready
	}
	a.row = 0
	return !ready
}

// answers opens one connection, and asks for the probe's path if there is one.
func (a *asker) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if a.probe.Path == "" {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", a.address)
		return err == nil && c.Close() == nil
	}
	if a.client == nil {
		a.client = &http.Client{
			Transport: &http.Transport{
				DisableKeepAlives: true,
				TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as a kubelet asks: the process is this one's own
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	scheme := "http://"
	if a.probe.TLS {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+a.address+"/"+strings.TrimPrefix(a.probe.Path, "/"), nil)
	if err != nil {
		return false
	}
	res, err := a.client.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode >= 200 && res.StatusCode < 400
}

func (a *asker) close() {
	if a.client != nil {
		a.client.CloseIdleConnections()
	}
}
