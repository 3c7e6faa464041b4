package serving

import "fmt"

// Whole is the share of a revision that gets all requests, in percent.
const Whole = 100

// Stable returns the revision that keeps answering while the newest one is a canary: the last to which a rollout was complete. ok is false if
// there is no canary: no share is set, or all of it, or no earlier revision has answered. Setting a share does not split the requests between
// revisions that have both been rolled out: a rollback is a change of the spec.
func Stable(s *Service, all []Revision, newest string) (r Revision, ok bool) {
	rolled := RolledOut(all)
	if s.Canary == nil || *s.Canary >= Whole || newest == "" || len(rolled) == 0 || rolled[0].Name == newest {
		return Revision{}, false
	}
	return rolled[0], true
}

// CanaryReplicas is how many replicas a canary has beside those that are wanted of the revision before: its share of them, and at least
// one while there are any. None of the others ends for them.
func CanaryReplicas(wanted, percent int) int {
	if wanted <= 0 {
		return 0
	}
	return max(1, (wanted*percent+Whole-1)/Whole)
}

// BackOut is that a canary was backed out.
type BackOut struct {
	Percent int    // its share, which the spec asked for
	Why     string // with figures
}

// Share divides requests between two revisions, in turn. The zero value has divided none.
type Share struct{ due int }

// Choose returns whether the next request goes to the canary, which has a share in percent, and the Share after that. stable and canary say
// which of the revisions can take a request now; ok is false if none can. If one cannot, the other gets the request, and it is not made up
// for later. A canary without a share never gets one.
func (s Share) Choose(percent int, stable, canary bool) (toCanary, ok bool, next Share) {
	canary = canary && percent > 0
	due := s.due + percent
	if toCanary = due >= Whole; toCanary {
		due -= Whole
	}
	switch {
	case !stable && !canary:
		return false, false, s
	case !stable || !canary:
		toCanary = canary
	}
	return toCanary, true, Share{due}
}

// Effective is the share that a canary gets, of the share that the spec asks for: none once it was backed out, until the spec asks for another.
func (r *Revision) Effective(percent int) int {
	if r.BackedOut != nil && r.BackedOut.Percent == percent {
		return 0
	}
	return percent
}

// CanarySeen is what there is of a canary at a moment.
type CanarySeen struct {
	Percent       int    // the share that is asked for
	Effective     int    // the share that it gets while a replica is ready
	Ready, Wanted int    // replicas
	Blocked       string // why requests cannot be divided; "" is that they can be
	Waits         string // what a replica waits for; "" is nothing
	Fault         *Fault // why its model is not served
	BackedOut     string // why; "" is that it is not
	Split         *Split // what came of the requests; nil is not known
}

// The reasons of a service with a canary.
const (
	ReasonCanary    = "Canary"
	ReasonBackedOut = "CanaryBackedOut"
)

// condition is what is said of a canary, apart from the replicas of the revision before.
func (c *CanarySeen) condition() Condition {
	out := Condition{Type: "Canary", Is: True, Reason: ReasonCanary}
	switch {
	case c.Blocked != "":
		out.Is, out.Reason, out.Message = False, "NotDivided", "the new revision waits: "+c.Blocked
	case c.BackedOut != "":
		out.Is, out.Reason, out.Message = False, ReasonBackedOut, "the new revision was backed out and gets no requests: "+c.BackedOut
	case c.Wanted == 0:
		out.Is, out.Reason, out.Message = False, ReasonScaledDown, "the new revision has no replicas, as the service has none"
	case c.Ready > 0:
		out.Message = fmt.Sprintf("the new revision gets %d%% of the requests", c.Effective)
	case c.Fault != nil:
		out.Is, out.Reason, out.Message = False, c.Fault.Reason, fmt.Sprintf("the new revision is to get %d%% of the requests: %s", c.Effective, c.Fault.Message)
	case c.Waits != "":
		out.Is, out.Reason, out.Message = False, ReasonQueued, fmt.Sprintf("the new revision is to get %d%% of the requests, and waits: %s", c.Effective, c.Waits)
	default:
		out.Is, out.Reason, out.Message = False, ReasonStarting, fmt.Sprintf("the new revision is to get %d%% of the requests, and starts", c.Effective)
	}
	return out
}

// Traffic is the share that the canary gets now, in percent.
func (c *CanarySeen) Traffic() int {
	if c.Ready == 0 || c.Blocked != "" {
		return 0
	}
	return c.Effective
}
