package allocation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"berth.dev/berth/core/sharing"
)

// Reasons for which a container does not start, as Refusals counts them.
const (
	ReasonMissing    = "missing"        // its pod needs committed devices and has none
	ReasonMalformed  = "malformed"      // the annotation cannot be read, or does not match what the containers ask for
	ReasonUnhealthy  = "unhealthy"      // the device has failed or is gone
	ReasonTaken      = "taken"          // another pod holds the device, or too much of it
	ReasonUnknown    = "unknown-device" // this node does not have the device, or not in that form
	ReasonAmbiguous  = "ambiguous"      // the kubelet does not tell for which container it asks
	ReasonPodUnknown = "pod-unknown"    // the pod cannot be read
	ReasonDriver     = "driver"         // the driver does not say how a container reaches its GPUs
	ReasonWrite      = "cannot-write"   // the CDI spec cannot be written
)

// refusal is why a container does not start: a sentence for its users.
type refusal struct {
	reason string
	text   string
	err    error // what the text tells, if it comes from elsewhere
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.err }

func refuse(reason, format string, args ...any) *refusal {
	err := fmt.Errorf(format, args...)
	return &refusal{reason: reason, text: "berth: " + err.Error(), err: errors.Unwrap(err)}
}

// again is what people can do about a commitment that cannot be kept.
const again = "; delete the pod to have it placed anew"

// reasonOf is what the ledger refused.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, sharing.ErrNotOffered):
		return ReasonUnknown
	case errors.Is(err, sharing.ErrTaken):
		return ReasonTaken
	}
	return ReasonMalformed
}

// count notes a refusal.
func (n *Node) count(err error) {
	var r *refusal
	if !errors.As(err, &r) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusals[r.reason]++
}

// named puts the names of pods in the place of their UIDs, which the ledger
// calls its owners by. n.mu is held.
func (n *Node) named(err error) error {
	text := err.Error()
	for uid, r := range n.records {
		text = strings.ReplaceAll(text, uid, "pod "+r.Namespace+"/"+r.Pod)
	}
	if text == err.Error() {
		return err
	}
	return renamed{err, text}
}

// renamed is an error with another text.
type renamed struct {
	error
	text string
}

func (r renamed) Error() string { return r.text }
func (r renamed) Unwrap() error { return r.error }

// gaveUp tells whether an error is only that the caller has gone.
func gaveUp(ctx context.Context, err error) bool { return err != nil && ctx.Err() != nil }
