package kubelet

import (
	"fmt"
	"sync"
	"time"
)

// meter turns usage into counters of CPU time that never fall: each reading
// adds the usage at that moment times the time since the reading before. The
// first one counts from the start of the container.
type meter struct {
	mu    sync.Mutex
	nodes map[string]map[string]*count // by node, then by what is counted
}

// count is one counter.
type count struct {
	at      time.Time
	seconds float64
	seen    bool // in the reading under way
}

// usage is what one thing uses at one moment.
type usage struct {
	key      string // unique on the node, for as long as one instance lives
	start    time.Time
	cpuMilli int64
}

// read adds the time since the last reading of the node and returns the
// counters in CPU-seconds, in the order of us. Counters of what is not in us
// are dropped.
func (m *meter) read(node string, now time.Time, us []usage) []float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nodes == nil {
		m.nodes = map[string]map[string]*count{}
	}
	if m.nodes[node] == nil {
		m.nodes[node] = map[string]*count{}
	}
	counts := m.nodes[node]
	out := make([]float64, len(us))
	for i, u := range us {
		c := counts[u.key]
		if c == nil {
			c = &count{at: u.start}
			if u.start.IsZero() {
				c.at = now
			}
			counts[u.key] = c
		}
		if d := now.Sub(c.at); d > 0 {
			c.seconds += d.Seconds() * float64(u.cpuMilli) / 1000
			c.at = now
		}
		c.seen = true
		out[i] = c.seconds
	}
	for key, c := range counts {
		if !c.seen {
			delete(counts, key)
		}
		c.seen = false
	}
	return out
}

// nodeStats is one reading of a node: its running containers, pod by pod, and
// their counters.
type nodeStats struct {
	now                   time.Time
	cpuMilli, memoryBytes int64
	cpuSeconds            float64
	pods                  []podStats
}

// podStats is the part of one pod, which has at least one container.
type podStats struct {
	containers []Container
	cpuSeconds []float64 // by container
}

// stats takes a reading of a node.
func (s *Server) stats(node string) nodeStats {
	n := nodeStats{now: s.now()}
	n.cpuMilli, n.memoryBytes = s.rt.Usage(node)
	us := []usage{{key: "node", cpuMilli: n.cpuMilli}}
	pods := podsOf(running(s.rt.Containers(node, "", "")))
	for _, cs := range pods {
		for _, c := range cs {
			us = append(us, usage{
				key:   fmt.Sprintf("%s/%s/%d", c.UID, c.Name, c.RestartCount),
				start: c.StartedAt, cpuMilli: c.CPUMilli,
			})
		}
	}
	seconds := s.meter.read(node, n.now, us)
	n.cpuSeconds, seconds = seconds[0], seconds[1:]
	for _, cs := range pods {
		n.pods = append(n.pods, podStats{cs, seconds[:len(cs)]})
		seconds = seconds[len(cs):]
	}
	return n
}

// running returns the containers that run.
func running(cs []Container) []Container {
	var out []Container
	for _, c := range cs {
		if c.State == StateRunning {
			out = append(out, c)
		}
	}
	return out
}

// podsOf groups containers, which come pod by pod, in their order.
func podsOf(cs []Container) [][]Container {
	var out [][]Container
	for i, c := range cs {
		if i == 0 || c.Namespace != cs[i-1].Namespace || c.Pod != cs[i-1].Pod {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], c)
	}
	return out
}
