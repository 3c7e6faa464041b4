package host

import (
	"path/filepath"
	"strconv"
	"time"
)

// Key names one run of one container.
type Key struct {
	UID       string // of the pod
	Container string
	Run       int // restarts before it
}

// String returns the parts of the key with slashes between them.
func (k Key) String() string { return k.UID + "/" + k.Container + "/" + strconv.Itoa(k.Run) }

// local reports whether the key may be part of a path.
func (k Key) local() bool {
	return filepath.IsLocal(k.UID) && filepath.Base(k.UID) == k.UID && filepath.IsLocal(k.Container) && filepath.Base(k.Container) == k.Container
}

// Request says what to run in place of a container.
type Request struct {
	Key
	Rule           Rule
	Namespace, Pod string
	// Environ returns the container's environment. It may take its time; it is
	// called once, on a goroutine of the Runner.
	Environ func() []string
	// Claim is the PersistentVolumeClaim that is the process's home, in the pod's
	// namespace, and SubPath the folder in it; "" is a folder that goes with the
	// pod.
	Claim, SubPath string
	// GPUs says that the container holds GPUs: then the simulated nvidia-smi comes
	// first in PATH.
	GPUs  bool
	Probe Probe
	// Changed is called, without locks and from any goroutine, when State has
	// something new.
	Changed func()
}

// Probe says when a process is ready.
type Probe struct {
	// None is that the process is ready when it runs, and asked nothing.
	None bool
	// Path is what a GET must answer with a status of 200 to 399; "" is that a TCP
	// connection is enough.
	Path string
	// TLS is that the GET goes over TLS, whatever the certificate is, as a kubelet's does.
	TLS bool
	// Every is how often it is asked; 0 is until it has answered once.
	Every time.Duration
	// Delay is how long after the start it is asked first.
	Delay time.Duration
	// Successes and Failures in a row turn it ready and not ready; 0 is 1.
	Successes, Failures int
}

// State is what became of a run.
type State struct {
	PID     int      // of the process; 0 until it runs
	Port    int      // on 127.0.0.1, where it is told to listen; 0 until it runs
	Home    string   // its folder
	Command []string // as it was started
	LeftOut []string // variables of the pod that it did not get
	Ready   bool
	Exit    *Exit         // nil while it runs
	Lines   func() []Line // its log, oldest line first; never nil
}

// Exit is how a run ended.
type Exit struct {
	At   time.Time
	Code int32 // of the process, or 128 and the signal that ended it
	// Reason and Message say more than the code does: ReasonStart or
	// ReasonRefused and why. Both are "" where the process just ended.
	Reason, Message string
}

// The reasons of an Exit that the process did not choose.
const (
	ReasonStart   = "StartError"         // it could not be started
	ReasonRefused = "HostProcessRefused" // it listened beyond loopback and was ended
)
