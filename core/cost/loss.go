package cost

import (
	"fmt"
	"time"
)

// Loss is what a ledger does not have any longer of a time, because its file was damaged or gone. Its JSON is what Berth serves and prints.
type Loss struct {
	From time.Time `json:"from"` // zero is the beginning of the ledger
	To   time.Time `json:"to"`
	At   time.Time `json:"at"`             // when that was found
	Node string    `json:"node,omitempty"` // the only node that it is of; "" is that it may be of any
	What string    `json:"what"`           // what is lost, for people
}

// In reports whether a loss is of a time.
func (l *Loss) In(from, to time.Time) bool { return l.From.Before(to) && from.Before(l.To) }

// String is the loss for people: "2026-11-02 09:00 to 2026-11-03 00:00 UTC, node a100-1: what 3 pods held".
func (l *Loss) String() string {
	const minutes = "2006-01-02 15:04"
	text := "until "
	if !l.From.IsZero() {
		text = l.From.UTC().Format(minutes) + " to "
	}
	text += l.To.UTC().Format(minutes) + " UTC"
	if l.Node != "" {
		text += ", node " + l.Node
	}
	return fmt.Sprintf("%s: %s", text, l.What)
}
