package fleet

import (
	"berth.dev/berth/fleet/host"
	"berth.dev/berth/fleet/kubelet"
)

// hostView fills in what the API shows of a container that a process backs.
func (p *pod) hostView(c *container, k *kubelet.Container, logs bool) {
	k.Hosted, k.Shell = true, false
	s := p.node.fleet.process(p.key(c))
	if s.Exit == nil {
		k.HostPort, k.Listens = s.Port, func(port int) bool { return host.Listens(s.PID, port) }
	}
	if logs {
		k.Lines = printedBy(s)
	}
}

// process returns what is known of a run, nothing where no process may run.
func (f *Fleet) process(k host.Key) host.State {
	if f.host == nil {
		return host.State{}
	}
	s, _ := f.host.State(k)
	return s
}

// hostBefore returns the log of the run before, if a process backed it.
func (p *pod) hostBefore(c *container) []kubelet.Line {
	k := p.key(c)
	if c.state.Waiting == nil {
		k.Run--
	}
	s := p.node.fleet.process(k)
	return printedBy(s)
}

// printedBy returns a log, which is not nil.
func printedBy(s host.State) []kubelet.Line {
	out := []kubelet.Line{}
	if s.Lines == nil {
		return out
	}
	for _, l := range s.Lines() {
		out = append(out, kubelet.Line{At: l.At, Text: l.Text})
	}
	return out
}
