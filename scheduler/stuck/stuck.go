// Package stuck watches for pods that hold GPUs and cannot run: their containers
// crash again and again, or cannot be pulled. After a while it names them in an
// event, and where the policy says so it deletes those that come back by
// themselves, so that their GPUs go to whoever waits longest. Who is stuck is
// decided by package kube/devices; this package keeps the time. It looks at no load: a
// container that runs and does nothing is not its business.
package stuck

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
)

// Policy says what is done about a stuck pod, and after which time.
type Policy struct {
	Report  time.Duration // an event names it; 0 is never
	Release time.Duration // it is deleted, if it has a controller; 0 is never
}

// DefaultPolicy reports after ten minutes, and deletes nothing.
func DefaultPolicy() Policy { return Policy{Report: 10 * time.Minute} }

// recovered is how long a pod must run until what was before is forgotten: a
// container that crashes again and again runs in between.
const recovered = 10 * time.Minute

// Act is one thing to do now.
type Act struct {
	Pod     *v1.Pod
	Release bool   // delete the pod; else tell
	Message string // of the event
}

// Tracker knows which pods are stuck, and since when. It is not safe for
// concurrent use.
type Tracker struct {
	policy Policy
	pods   map[types.UID]*record
}

// record is one pod that was stuck lately.
type record struct {
	pod   *v1.Pod
	why   string
	since time.Time
	runs  time.Time // since when it is not stuck; zero while it is
	told  string
	gone  bool // it was released
}

// NewTracker makes a Tracker that knows no pod.
func NewTracker(p Policy) *Tracker { return &Tracker{policy: p, pods: map[types.UID]*record{}} }

// Saw takes a pod as it is at now.
func (t *Tracker) Saw(pod *v1.Pod, now time.Time) {
	why, since, stuck := devices.Stuck(pod)
	r := t.pods[pod.UID]
	switch {
	case r == nil && !stuck:
		return
	case r == nil:
		if since.IsZero() || since.After(now) {
			since = now
		}
		t.pods[pod.UID] = &record{pod: pod, why: why, since: since}
		return
	}
	r.pod = pod
	switch {
	case stuck:
		r.why, r.runs = why, time.Time{}
	case r.runs.IsZero():
		r.runs = now
	}
}

// Forget drops a pod that is gone.
func (t *Tracker) Forget(uid types.UID) { delete(t.pods, uid) }

// Acts gives what is to be done at now, in the order of the pods' names. What was
// given is not given again, unless what a pod is stuck with has changed.
func (t *Tracker) Acts(now time.Time) []Act {
	var out []Act
	for uid, r := range t.pods {
		if !r.runs.IsZero() {
			if now.Sub(r.runs) >= recovered {
				delete(t.pods, uid)
			}
			continue
		}
		held := now.Sub(r.since)
		switch {
		case t.policy.Release > 0 && held >= t.policy.Release && !r.gone && request.Replaceable(r.pod):
			r.gone, r.told = true, r.why
			out = append(out, Act{r.pod, true, fmt.Sprintf("held %s of node %s for %s without running (%s): deleted, so that others can have them",
				amounts(r.pod), r.pod.Spec.NodeName, held.Round(time.Second), r.why)})
		case t.policy.Report > 0 && held >= t.policy.Report && r.told != r.why:
			r.told = r.why
			out = append(out, Act{r.pod, false, fmt.Sprintf("holds %s of node %s and does not run since %s (%s): mend it, or delete it so that others can have them",
				amounts(r.pod), r.pod.Spec.NodeName, r.since.UTC().Format(time.RFC3339), r.why)})
		}
	}
	slices.SortFunc(out, func(a, b Act) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	return out
}

// amounts writes what GPUs a pod holds, as it asked for them.
func amounts(pod *v1.Pod) string { return reasons.Amounts(explain.AmountsOf(pod)) }
