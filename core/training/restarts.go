package training

import (
	"maps"
	"strings"
)

// Restarts counts, by member as in its name ("worker-3"), how often its pod was created again
// after the program had failed. It is kept on the job, as the pods that failed are
// gone, and holds the UID of the last one, so none is counted twice.
type Restarts map[string]Counted

// Counted is the restarts of one member.
type Counted struct {
	Times int
	UID   string // of the last pod that failed
	Exit  int    // with which its program has ended on Nodes
	Nodes string // in a row, separated by commas; at most as many as are needed to say that the program is the cause
}

// key returns the name under which a member is counted.
func (m Member) key() string { return strings.TrimPrefix(m.Name(""), "-") }

// with returns the counts with the failure of a pod added.
func (r Restarts) with(p *Pod) Restarts {
	if r[p.key()].UID == p.UID {
		return r
	}
	return r.add(p, 1)
}

// add returns the counts with so many failures of a pod added.
func (r Restarts) add(p *Pod, times int) Restarts {
	key := p.key()
	out := maps.Clone(r)
	if out == nil {
		out = Restarts{}
	}
	c := r[key].ended(p)
	c.Times, c.UID = c.Times+times, p.UID
	out[key] = c
	return out
}

// Of returns how often the pod of a member was created again.
func (r Restarts) Of(m Member) int { return r[m.key()].Times }

// failures returns how often the programs of the job have failed and were, or are to be, started
// again: restarts of containers that run, and pods created again. Replicas that are never
// restarted do not count.
func (j *Job) failures(pods []Pod) int {
	n := 0
	for _, c := range j.Restarts {
		n += c.Times
	}
	for i := range pods {
		p := &pods[i]
		r := j.Replica(p.Type)
		if r == nil || r.Restart == RestartNever || p.Round < j.Round {
			continue
		}
		if p.Phase == Running {
			n += p.Restarts
		}
		if r.restarts(p) && j.Restarts[p.key()].UID != p.UID {
			n++
		}
	}
	return n
}

// retryable is the least exit code that policy ExitCode restarts: those of signals.
const retryable = 128

// restarts reports whether a pod whose program failed is created again.
func (r *Replica) restarts(p *Pod) bool {
	if !p.failed() {
		return false
	}
	switch r.Restart {
	case RestartAlways, RestartOnFailure, RestartPod:
		return true
	case RestartExitCode:
		return p.Exit == nil || *p.Exit >= retryable
	default:
		return false
	}
}
