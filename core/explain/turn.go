package explain

import (
	"fmt"

	"berth.dev/berth/core/quota"
)

// Turn is how it stands with a suspended object that asks to be resumed in its turn.
type Turn struct {
	Left string // why it is left alone nevertheless; "" is that it is not
	// Position is its place in the line of a queue, from 1, and Of how many wait there.
	Queue        string
	Position, Of int
	Quota        quota.Verdict // of its pods
	User         string
	Need, Fit    int    // pods that it needs to start, and how many of them nodes have room for now
	Problem      string // what of its annotations is ignored; "" is nothing
}

// explain says why an object is not resumed yet. at is its namespace and name, and resume the command that resumes it;
// "" is to patch spec.suspend.
func (t *Turn) explain(kind, at, resume string) (state, message string, code Code) {
	also := ""
	if t.Problem != "" {
		also = "; " + t.Problem
	}
	switch {
	case t.Left != "":
		if resume == "" {
			resume = fmt.Sprintf("kubectl patch %s -n %s -p '{\"spec\":{\"suspend\":false}}'", kind, at)
		}
		return "Suspended", fmt.Sprintf("not resumed in its turn: %s; %s resumes it at once", t.Left, resume), CodeSuspended
	case t.Quota.Cause != quota.None:
		d := quotaCause(&t.Quota, "the "+title(kind), t.User)
		return "Queued", fmt.Sprintf("suspended until its turn, as number %d of %d in queue %s: %s%s", t.Position, t.Of, t.Queue, d.text, also), d.code
	case t.Fit < t.Need:
		return "Queued", fmt.Sprintf("suspended until its turn: queue %s has quota for it, and nodes have room for %d of the %d pods that it needs to start%s", t.Queue, t.Fit, t.Need, also), CodeHeld
	}
	return "Queued", fmt.Sprintf("suspended, and its turn has come: queue %s has quota for it, and nodes have room; the scheduler resumes it%s", t.Queue, also), CodeSuspended
}

// title is a kind, in lower case, as people write it.
func title(kind string) string {
	switch kind {
	case "job":
		return "Job"
	case "tfjob":
		return "TFJob"
	case "pytorchjob":
		return "PyTorchJob"
	}
	return kind
}
