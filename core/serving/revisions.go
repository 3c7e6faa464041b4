package serving

import (
	"cmp"
	"slices"
	"time"
)

// HistoryLimit is how many revisions of a service are kept beside the newest one, as of a Deployment.
const HistoryLimit = 10

// Revision is one of the revisions of a service that are kept.
type Revision struct {
	Name      string
	Number    int64     // in order of when each was last made the newest
	RolledOut time.Time // when a rollout to it was last complete; zero is never
	Pods      int       // that there are of it
	BackedOut *BackOut  // of a canary; nil is that it was not
}

// Keep returns the number of the newest revision, which has a name, among those that are kept, and the names of those to remove. One
// that was the newest before gets a new number, as with a Deployment. None is removed that has pods, or to which a rollback
// without a name leads.
func Keep(all []Revision, newest string) (number int64, remove []string) {
	var others []Revision
	highest := int64(0)
	for _, r := range all {
		highest = max(highest, r.Number)
		if r.Name == newest {
			number = r.Number
		} else {
			others = append(others, r)
		}
	}
	if number == 0 || number < highest {
		number = highest + 1
	}
	back, _ := Back(all, newest)
	slices.SortFunc(others, func(a, b Revision) int { return cmp.Compare(a.Number, b.Number) })
	for i, r := range others {
		if i < len(others)-HistoryLimit && r.Pods == 0 && r.Name != back.Name {
			remove = append(remove, r.Name)
		}
	}
	return number, remove
}

// RolledOut returns the revisions to which a rollout was once complete, the last of them first.
func RolledOut(all []Revision) []Revision {
	out := slices.DeleteFunc(slices.Clone(all), func(r Revision) bool { return r.RolledOut.IsZero() })
	slices.SortFunc(out, func(a, b Revision) int {
		return cmp.Or(b.RolledOut.Compare(a.RolledOut), cmp.Compare(b.Number, a.Number))
	})
	return out
}

// Back returns the revision to which a rollback from the newest one leads: the last other one to which a rollout was complete. ok is
// false if there is none.
func Back(all []Revision, newest string) (r Revision, ok bool) {
	for _, r := range RolledOut(all) {
		if r.Name != newest {
			return r, true
		}
	}
	return Revision{}, false
}

// Complete reports whether a rollout is: all replicas that are wanted are of the newest revision, and answer.
func (s *Seen) Complete() bool {
	return s.Refused == nil && s.Wanted > 0 && !s.Rolling && s.Updated >= s.Wanted && s.Ready >= s.Wanted
}
