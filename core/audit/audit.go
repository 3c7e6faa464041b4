// Package audit says what happens to pods that ask for GPUs, and to queues: each step once, at the time that the objects state.
// Seen again, or by another process, the same objects give the same records.
package audit

import (
	"cmp"
	"slices"
	"time"

	"berth.dev/berth/core/cost"
)

// Act is a step in the life of a pod or a queue.
type Act string

// The acts.
const (
	Asked     Act = "asked"     // the pod was created
	Waits     Act = "waits"     // the scheduler refused it for now
	Admitted  Act = "admitted"  // its queue has quota for it, after it waited for that
	Granted   Act = "granted"   // it got a node and devices
	Moved     Act = "moved"     // its devices are others now
	Preempted Act = "preempted" // it has to make room for another, or to return quota
	Evicted   Act = "evicted"   // it has to leave for another reason
	Released  Act = "released"  // it holds nothing any longer
	Created   Act = "created"   // of a queue
	Changed   Act = "changed"   // of a queue: what it may hold, or its rules
	Deleted   Act = "deleted"   // of a queue
)

// Record is one act.
type Record struct {
	At      time.Time
	Subject string // UID of the pod or the queue
	Act     Act
	Node    string // "" is none
	Reason  string // one word, such as WaitingForQuota; "" is none
	Detail  string // for people; "" is nothing
}

// Pod is how a pod is at a moment, as far as acts are concerned. A zero time is that it has not come to that.
type Pod struct {
	UID     string
	Asks    string // such as "2 nvidia.com/gpu"
	Created time.Time
	// Waits is why it has no node, by a word and a sentence, since a time.
	WaitsSince          time.Time
	WaitsFor, WaitsText string
	ForQuota            bool // it waits for quota
	Bound               time.Time
	Node, Devices       string
	// Disrupted is when it was marked as one that has to leave, and why.
	Disrupted              time.Time
	DisruptedBy, Disrupter string
	ForRoom                bool // for another workload
	// Ended is when it ended, and how.
	Ended             time.Time
	EndedHow, EndText string
}

// Next returns what has happened to a pod since it was last seen; the zero Pod is that it was not. now is when it is seen.
func Next(was, is *Pod, now time.Time) (out []Record) {
	add := func(at time.Time, act Act, node, reason, detail string) {
		if at.IsZero() {
			at = now
		}
		out = append(out, Record{At: at, Subject: is.UID, Act: act, Node: node, Reason: reason, Detail: detail})
	}
	if was.Created.IsZero() {
		add(is.Created, Asked, "", "", is.Asks)
	}
	if is.WaitsFor != "" && is.WaitsFor != was.WaitsFor && is.Bound.IsZero() {
		at := now
		if was.WaitsFor == "" {
			at = is.WaitsSince
		}
		add(at, Waits, "", is.WaitsFor, is.WaitsText)
	}
	switch {
	case was.ForQuota && !is.ForQuota && is.Bound.IsZero():
		add(now, Admitted, "", "", "its queue has quota for it")
	case was.ForQuota && !is.Bound.IsZero() && was.Bound.IsZero():
		add(is.Bound, Admitted, "", "", "its queue has quota for it")
	}
	if !is.Bound.IsZero() && was.Bound.IsZero() {
		add(is.Bound, Granted, is.Node, "", is.Devices)
	} else if !was.Bound.IsZero() && is.Devices != was.Devices {
		add(now, Moved, is.Node, "", is.Devices)
	}
	if !is.Disrupted.IsZero() && (was.Disrupted.IsZero() || is.DisruptedBy != was.DisruptedBy) {
		act := Evicted
		if is.ForRoom {
			act = Preempted
		}
		add(is.Disrupted, act, is.Node, is.DisruptedBy, is.Disrupter)
	}
	if !is.Ended.IsZero() && was.Ended.IsZero() {
		add(is.Ended, Released, is.Node, is.EndedHow, is.EndText)
	}
	return out
}

// Queue is what a queue may hold, and its rules, at a moment.
type Queue struct {
	UID, Name  string
	Created    time.Time
	Changed    time.Time // when its spec was last written; zero is not known
	By         string    // the program that wrote it; "" is not known
	Generation int64
	Rules      string // for people
}

// NextQueue returns what has happened to a queue since it was last seen; nil is that it was not. now is when it is seen.
func NextQueue(was, is *Queue, now time.Time) []Record {
	at := is.Changed
	if at.IsZero() {
		at = now
	}
	r := Record{At: at, Subject: is.UID, Act: Changed, Reason: is.By, Detail: is.Rules}
	switch {
	case was == nil && (is.Generation <= 1 || at.Equal(is.Created)):
		r.Act, r.At = Created, is.Created
	case was == nil:
	case was.Generation == is.Generation:
		return nil
	case was.Rules != is.Rules:
		r.Detail = is.Rules + "; before: " + was.Rules
	}
	return []Record{r}
}

// Line is a record with who it is about.
type Line struct {
	Record
	Who cost.Pod // of a queue, only Queue
}

// order is that of acts at one time.
var order = []Act{Created, Changed, Deleted, Asked, Waits, Admitted, Granted, Moved, Preempted, Evicted, Released}

// Sort orders lines by time, and those of one time as they follow each other in a life.
func Sort(lines []Line) {
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(slices.Index(order, a.Act), slices.Index(order, b.Act)), cmp.Compare(a.Who.Namespace, b.Who.Namespace), cmp.Compare(a.Who.Name, b.Who.Name), cmp.Compare(a.Subject, b.Subject))
	})
}
