package notice

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
)

// Reasons why a container does not start, as Refusals counts them.
const (
	ReasonMissing    = "missing"        // the pod needs committed devices and has none
	ReasonMalformed  = "malformed"      // the annotation cannot be read, or does not match the containers' requests
	ReasonUnhealthy  = "unhealthy"      // the device has failed or is gone
	ReasonTaken      = "taken"          // another pod holds the device, or too much of it
	ReasonUnknown    = "unknown-device" // this node does not have the device, or not in that form
	ReasonAmbiguous  = "ambiguous"      // the kubelet does not say which container it asks for
	ReasonPodUnknown = "pod-unknown"    // the pod cannot be read
	ReasonDriver     = "driver"         // the driver does not say how a container reaches its GPUs
	ReasonWrite      = "cannot-write"   // the CDI spec cannot be written
)

var reasons = []string{
	ReasonMissing, ReasonMalformed, ReasonUnhealthy, ReasonTaken, ReasonUnknown, ReasonAmbiguous, ReasonPodUnknown, ReasonDriver, ReasonWrite,
}

// Refusal is the error of a container that does not start: a sentence for the
// pod's users, and one of the reasons above.
type Refusal struct {
	Reason string
	text   string
	err    error // the cause, if the text quotes one
}

// Error returns the sentence for the users of the pod.
func (r *Refusal) Error() string { return r.text }

// Unwrap returns the error that the sentence was made of; nil is none.
func (r *Refusal) Unwrap() error { return r.err }

// Refuse returns a refusal for a reason. Its text begins with "berth: ", because
// the kubelet shows it among the errors of others.
func Refuse(reason, format string, args ...any) *Refusal {
	err := fmt.Errorf(format, args...)
	return &Refusal{Reason: reason, text: "berth: " + err.Error(), err: errors.Unwrap(err)}
}

// Is reports whether an error is a refusal, for whatever reason.
func Is(err error) bool {
	var r *Refusal
	return errors.As(err, &r)
}

// IsFor reports whether an error is a refusal for this reason.
func IsFor(err error, reason string) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Reason == reason
}

// Reschedule ends the text about a commitment that this node cannot keep: what
// the user can do.
const Reschedule = "; delete the pod to have it rescheduled"

// Refusals counts refusals by reason. It is safe for concurrent use, and its zero
// value has counted none.
type Refusals struct {
	mu     sync.Mutex
	counts map[string]int64 // guarded by mu
}

// Add counts an error that is a refusal, and ignores any other.
func (r *Refusals) Add(err error) {
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[string]int64{}
	}
	r.counts[refusal.Reason]++
}

// Counts returns the refusals by reason. Every reason is there, also with 0.
func (r *Refusals) Counts() map[string]int64 {
	out := map[string]int64{}
	for _, reason := range reasons {
		out[reason] = 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(out, r.counts)
	return out
}

// List joins names for a sentence, at most four of them.
func List(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
}
