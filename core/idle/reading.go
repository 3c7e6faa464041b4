package idle

import (
	"slices"
	"time"
)

// Result is how asking for something went.
type Result string

// The results.
const (
	// Absent: there is nothing that could be asked, or it does not tell. This is the
	// zero value in meaning, "" too.
	Absent Result = "absent"
	// OK: it answered.
	OK Result = "ok"
	// Failed: it should have answered, and did not.
	Failed Result = "failed"
)

// Readings are what one look at a notebook found.
type Readings struct {
	Server Server
	CPU    CPU // read if Server.NeedsCPU
	GPUs   GPUs
}

// Server is what the server of a notebook says of itself.
type Server struct {
	At     time.Time // when it was asked
	Result Result    // of all that was asked together
	Said   string    // why it is not OK: what a person should know, without a full stop
	// Kernels are those that run, in no order.
	Kernels []Kernel
	// Terminals is when something last went through a terminal; zero is never.
	Terminals time.Time
	// API is when a client last called Jupyter's API, or did one of the above.
	API time.Time
	// Connections is how many connections of pages are open.
	Connections int
	// Programs says that it runs programs of which it reports nothing: a terminal is
	// open, or it is an IDE. Only the CPU time of its pod shows that they work.
	Programs bool
}

// CPU is the CPU time that a notebook's pod uses, by the metrics API.
type CPU struct {
	Result Result // Absent: there is no metrics API, or it has no reading of the pod
	Said   string // why it is not OK
	Cores  float64
}

// Kernel is one kernel of a server.
type Kernel struct {
	State    string // Jupyter's execution_state: idle, busy, starting, dead, ...
	Activity time.Time
}

// busy tells a kernel that computes, or is about to. A dead one does not.
func (k Kernel) busy() bool { return k.State != "idle" && k.State != "dead" && !k.starting() }

// starting tells a kernel that starts, or of which its server knows no more: Jupyter Notebook 6 goes on to say
// so of one whose first messages it missed, and Jupyter Server of one to which no client has connected.
func (k Kernel) starting() bool { return k.State == "starting" }

// NeedsCPU reports whether only the CPU time of its pod shows that something in it works.
func (s *Server) NeedsCPU() bool { return s.Programs || s.starting() }

// starting reports whether it has such a kernel.
func (s *Server) starting() bool { return slices.ContainsFunc(s.Kernels, Kernel.starting) }

// GPUs are the readings of what a notebook's pod holds.
type GPUs struct {
	At      time.Time
	Result  Result // Absent: it holds none, or no exporter publishes readings of them
	Said    string // why it is not OK
	Devices []Device
}

// Device is one GPU or MIG device.
type Device struct {
	UUID        string
	Utilization float64 // ratio, 0-1
	MemoryBytes int64   // in use
}

// Busy reports whether a device is in use.
func Busy(g GPUs) bool { return g.Result == OK && g.busy() != nil }

// busy returns the first device that is in use, or nil.
func (g *GPUs) busy() *Device {
	for i := range g.Devices {
		if g.Devices[i].Utilization > busyRatio {
			return &g.Devices[i]
		}
	}
	return nil
}
