// Package kubelet serves what the kubelets of simulated nodes answer: logs,
// exec, attach, port-forward, statistics, the pages of the pods' ports, and the
// metrics API made from the same figures.
//
// It is not a kubelet: it starts nothing, watches nothing and writes nothing to
// the cluster. What runs, it asks of its Runtime at each request. It does no
// authentication; who serves its handlers does that by TLS.
package kubelet

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/fleet/kubelet/shell"
	"berth.dev/berth/fleet/smi"
)

// domain ends the host names of simulated nodes: NODE.sim.internal.
const domain = ".sim.internal"

// Server answers forevery node of one Runtime. It is safe for use by many
// goroutines.
type Server struct {
	// Around, if not nil, wraps what answers at a port of a pod that is forwarded. It
	// is set before the server serves.
	Around func(namespace, pod string, h http.Handler) http.Handler
	// Service, if not nil, returns what answers for a port of a Service of an
	// InferenceService, by its name or number, or nil. It is set before the server serves.
	Service func(namespace, name, port string) http.Handler

	rt    Runtime
	now   func() time.Time
	meter meter
}

// New returns a Server that asks rt what runs and now for the time.
func New(rt Runtime, now func() time.Time) *Server {
	return &Server{rt: rt, now: now}
}

// Handler serves the kubelet API of all nodes. The node is taken from the
// request's Host, NODE.sim.internal:10250, or, where that is no node, from the
// TLS server name. A name that is not a node of the Runtime is answered 404.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.onNode(s.serveLogs))
	for _, method := range []string{"GET", "POST"} {
		for _, uid := range []string{"", "/{uid}"} {
			mux.HandleFunc(method+" /exec/{namespace}/{pod}"+uid+"/{container}", s.onNode(s.serveExec))
			mux.HandleFunc(method+" /attach/{namespace}/{pod}"+uid+"/{container}", s.onNode(s.serveAttach))
			mux.HandleFunc(method+" /portForward/{namespace}/{pod}"+uid, s.onNode(s.servePortForward))
		}
	}
	mux.HandleFunc("GET /pods", s.onNode(s.servePods))
	mux.HandleFunc("GET /runningpods/", s.onNode(s.serveRunningPods))
	mux.HandleFunc("GET /stats/summary", s.onNode(s.serveSummary))
	mux.HandleFunc("GET /metrics/resource", s.onNode(s.serveResourceMetrics))
	return mux
}

// onNode finds the node that a request is for.
func (s *Server) onNode(serve func(w http.ResponseWriter, r *http.Request, node string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		nodes := s.rt.Nodes()
		names := []string{r.Host}
		if r.TLS != nil {
			names = append(names, r.TLS.ServerName)
		}
		for _, name := range names {
			if node := nodeOf(name, nodes); node != "" {
				serve(w, r, node)
				return
			}
		}
		http.Error(w, fmt.Sprintf("no simulated node answers at %q; its address is NODE%s", r.Host, domain), http.StatusNotFound)
	}
}

// nodeOf returns the node that a host name stands for, "" if there is none.
func nodeOf(host string, nodes []string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	label, _, _ := strings.Cut(host, ".")
	for _, name := range []string{strings.TrimSuffix(host, domain), label} {
		if slices.Contains(nodes, name) {
			return name
		}
	}
	return ""
}

// find returns one container of a node, and whether its pod is there at all.
func (s *Server) find(node, namespace, pod, name string) (c Container, podFound, found bool) {
	cs := s.rt.Containers(node, namespace, pod)
	for _, c := range cs {
		if c.Name == name {
			return c, true, true
		}
	}
	return Container{}, len(cs) > 0, false
}

// refuse answers as a kubelet does: the message alone, as plain text.
func refuse(w http.ResponseWriter, status int, format string, a ...any) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, format, a...)
}

// Machine returns the container as the commands of package shell see it: its
// own devices, or those of the whole node where NVIDIA_VISIBLE_DEVICES is
// "all" and it holds none.
func Machine(rt Runtime, c Container, now func() time.Time) shell.Machine {
	m := shell.Machine{
		Hostname: cmp.Or(c.Hostname, c.Pod), Image: c.Image, WorkingDir: c.WorkingDir, Env: c.Env, Now: now,
	}
	uuids := UUIDs(c)
	if uuids == nil && !slices.Contains(c.Env, "NVIDIA_VISIBLE_DEVICES=all") {
		return m
	}
	m.View = func() smi.View { return rt.View(c.Node, uuids) }
	v := m.View()
	if uuids == nil {
		for _, d := range v.Devices {
			m.GPUs = append(m.GPUs, d.GPU.Index)
		}
		return m
	}
	for _, d := range c.Devices {
		m.GPUs = append(m.GPUs, d.GPU)
		for _, shown := range v.Devices {
			for _, mig := range shown.GPU.MIG {
				if mig.UUID == d.UUID {
					m.Caps = append(m.Caps, capMinor(d.GPU, mig.GI), capMinor(d.GPU, mig.GI)+1+mig.CI)
				}
			}
		}
	}
	m.GPUs, m.Caps = sortedSet(m.GPUs), sortedSet(m.Caps)
	return m
}

// capMinor is the minor number of the device that opens one GPU instance; its
// compute instances follow it. The driver numbers 1 for its configuration, 2
// for its monitor, then for each GPU 15 instances of 1 and 8 numbers
// (/proc/driver/nvidia-caps/mig-minors of a machine with MIG).
func capMinor(gpu, instance int) int { return 3 + gpu*15*9 + instance*9 }

func sortedSet(ns []int) []int {
	slices.Sort(ns)
	return slices.Compact(ns)
}

// UUIDs returns the GPUs and MIG devices that a container holds, each once, in
// the order it was given them; nil if it holds none.
func UUIDs(c Container) []string {
	var out []string
	for _, d := range c.Devices {
		if !slices.Contains(out, d.UUID) {
			out = append(out, d.UUID)
		}
	}
	return out
}
