package serving

import (
	"cmp"
	"fmt"
	"time"
)

// Seen is what there is of a service at a moment.
type Seen struct {
	Service *Service
	Refused *Fault // why the service cannot run; nil is that it can
	Wanted  int    // replicas
	Unbound string // why replicas may get more requests at once than the service says; "" is that they may not
	Unread  string // what decides about replicas cannot be read, and why; "" is that it can
	Why     string // Wanted is what it is
	Ready   int    // replicas that answer
	Updated int    // replicas of the newest revision, ready or not
	Failed  int    // replicas whose server ends again and again
	// Waits is what a replica waits for before it has a node, "" for nothing; Fault is why the model of one is not served.
	Waits   string
	Fault   *Fault
	Pod     string // to which Waits or Fault applies
	Starts  string // what a replica with a node does: "pulling the image", "loading the model"
	Rolling bool   // there are replicas of an older revision
	Leaves  string // why replicas leave their nodes, such as "node a is cordoned"; "" is that none does
	Stay    int    // replicas that answer and do not leave
	// Canary is the new revision beside the one to which all else here applies; nil is none.
	Canary *CanarySeen
	// Transformer is what there is of the transformer, as of a service without one; nil is none.
	Transformer *Seen
}

// Condition is one condition of a status, without its time.
type Condition struct {
	Type            string
	Is              Truth
	Reason, Message string
}

// Truth is true, false, or unknown.
type Truth string

// The truths, as conditions have them.
const (
	True    Truth = "True"
	False   Truth = "False"
	Unknown Truth = "Unknown"
)

// State is what the status of a service says.
type State struct {
	Predictor, Queued Condition
	Canary            *Condition // nil is that there is none
	Transformer       *Condition // nil is that there is none
	Transition        string     // of KServe's modelStatus
	Active, Target    string     // states of the model
	Failure           *Fault
}

// The reasons of conditions that are Berth's.
const (
	ReasonReady      = "MinimumReplicasAvailable"
	ReasonScaledDown = "ScaledToZero"
	ReasonStopped    = "Stopped"
	ReasonQueued     = "WaitingForGPU"
	ReasonStarting   = "Starting"
	ReasonRolling    = "RollingOut"
)

// StateOf says how a service is.
func StateOf(s *Seen) State {
	out := State{Predictor: Condition{Type: "PredictorReady"}, Queued: Condition{Type: "GPUQueued", Is: False, Reason: "NotWaiting"}, Transition: "InProgress", Active: "Pending"}
	waits := s.Waits
	if s.Canary != nil {
		waits = cmp.Or(waits, s.Canary.Waits)
	}
	if t := s.Transformer; t != nil {
		c := StateOf(t).Predictor
		c.Type, waits = "TransformerReady", cmp.Or(waits, t.Waits)
		out.Transformer = &c
	}
	if waits != "" && s.Wanted > 0 {
		out.Queued.Is, out.Queued.Reason, out.Queued.Message = True, "Waiting", waits
	}
	p := &out.Predictor
	switch {
	case s.Service.Stopped:
		p.Is, p.Reason, p.Message = False, ReasonStopped, "the service is stopped; `berth service start "+s.Service.Name+"` starts it"
		out.Queued = Condition{Type: "GPUQueued", Is: False, Reason: "NotWaiting"}
		out.Active, out.Transition = "Standby", "UpToDate"
	case s.Refused != nil:
		p.Is, p.Reason, p.Message = False, s.Refused.Reason, s.Refused.Message
		out.Failure, out.Transition, out.Active = s.Refused, "InvalidSpec", "FailedToLoad"
		if s.Ready > 0 {
			p.Message += fmt.Sprintf("; until then %s of the revision before answer", replicas(s.Ready))
			out.Active = "Loaded"
		}
	case s.Wanted == 0:
		p.Is, p.Reason, p.Message = True, ReasonScaledDown, s.Why+"; the next request starts a replica"
		out.Active, out.Transition = "Standby", "UpToDate"
	case s.Ready == 0:
		out.none(s)
	default:
		out.some(s)
	}
	out.canary(s)
	return out
}

// canary says how the new revision is that is beside the one before.
func (o *State) canary(s *Seen) {
	if s.Canary == nil || s.Refused != nil || s.Service.Stopped {
		return
	}
	c := s.Canary.condition()
	o.Canary = &c
	p := &o.Predictor
	if p.Reason != ReasonReady {
		return
	}
	if p.Message += "; " + c.Message; c.Reason == ReasonBackedOut {
		p.Reason = ReasonBackedOut
	} else {
		p.Reason = ReasonCanary
	}
	if f := s.Canary.Fault; f != nil && o.Failure == nil {
		o.Failure, o.Target, o.Transition = f, "FailedToLoad", "BlockedByFailedLoad"
	}
}

// none says why no replica answers.
func (o *State) none(s *Seen) {
	p := &o.Predictor
	p.Is = False
	switch {
	case s.Fault != nil:
		p.Reason, p.Message, o.Failure = s.Fault.Reason, s.Fault.Message, s.Fault
		o.Transition, o.Active = "BlockedByFailedLoad", "FailedToLoad"
	case s.Waits != "":
		p.Reason, p.Message = ReasonQueued, s.count()+": "+s.Waits
	default:
		p.Reason, p.Message, o.Active = ReasonStarting, s.count(), "Loading"
		if s.Starts != "" {
			p.Message += ": " + s.Starts
		}
	}
	o.Target = o.Active
}

// some says what is missing while replicas answer.
func (o *State) some(s *Seen) {
	p := &o.Predictor
	p.Is, p.Reason, p.Message, o.Active, o.Target, o.Transition = True, ReasonReady, s.count(), "Loaded", "Loaded", "UpToDate"
	switch {
	case s.Fault != nil:
		o.Failure, o.Target = s.Fault, "FailedToLoad"
		if o.Transition = "BlockedByFailedLoad"; s.Rolling {
			p.Message += " of the revision before; the new one: " + s.Fault.Message
		} else {
			p.Message += "; " + s.Fault.Message
		}
	case s.Rolling && s.Waits != "":
		p.Reason, o.Target, o.Transition = ReasonRolling, "Pending", "InProgress"
		p.Message += " of the revision before; the new one waits: " + s.Waits
		if s.Service.Rollout == RolloutWait && s.Service.GPUs {
			p.Message += ". To use the GPU of an old replica for it, set the annotation berth.dev/rollout: " + string(RolloutStopFirst)
		}
	case s.Rolling:
		p.Reason, o.Target, o.Transition = ReasonRolling, "Loading", "InProgress"
		p.Message += "; the new revision starts"
	case s.Leaves != "" && s.Waits != "":
		p.Message += "; a replica is to move, as " + s.Leaves + ", and the one for its place waits: " + s.Waits
	case s.Leaves != "":
		p.Message += "; a replica moves, as " + s.Leaves
	case s.Waits != "":
		p.Message += fmt.Sprintf("; %s waits: %s", replica(s.Wanted-s.Ready), s.Waits)
	case s.Unread != "":
		p.Message += "; no replica ends while " + s.Unread
	case s.Unbound != "":
		p.Message += "; " + s.Unbound
	case s.Why == Uncounted:
		p.Message += "; " + Uncounted + ": `berth activator` counts them"
	}
}

// count says how many of the wanted replicas answer.
func (s *Seen) count() string {
	return fmt.Sprintf("%d of %s ready", min(s.Ready, s.Wanted), replicas(s.Wanted))
}

func replicas(n int) string {
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}

// replica names those that are missing.
func replica(missing int) string {
	if missing <= 1 {
		return "the other"
	}
	return "one of the others"
}

// Ready combines conditions as KServe does: True if all are, else the first that is not.
func Ready(conditions ...Condition) Condition {
	for _, c := range conditions {
		if c.Is != True {
			return Condition{"Ready", c.Is, c.Reason, c.Message}
		}
	}
	c := conditions[0]
	return Condition{"Ready", True, c.Reason, c.Message}
}

// Surge says by how many replicas a rollout may go beyond the wanted number, and below. waits reports whether a replica of
// the new revision waits for its GPUs.
func Surge(r Rollout, waits bool) (above, below int) {
	if r == RolloutStopFirst && waits {
		return 1, 1
	}
	return 1, 0
}

// LoadPatience is how long a server may load before its log is read for what is wrong, and how often it is read again.
const LoadPatience = 10 * time.Second
