package allocation

import (
	"context"
	"errors"

	"berth.dev/berth/core/sharing"
)

// ErrKilled is the error of a change that KillAt does not let happen.
var ErrKilled = errors.New("killed")

// KillAt ends the work of the node at the step-th change of the directory of CDI
// specs from now, as kill -9 would: no later change happens. killed reports
// whether that has happened.
func (n *Node) KillAt(step int) (killed func() bool) {
	done := false
	n.specs.BeforeChange = func(string) error {
		if step--; step <= 0 {
			done = true
		}
		if done {
			return ErrKilled
		}
		return nil
	}
	return func() bool { return done }
}

// FailWrites makes every change of the directory fail with err.
func (n *Node) FailWrites(err error) { n.specs.BeforeChange = func(string) error { return err } }

// Ledger returns what the node's ledger counts as held.
func (n *Node) Ledger() []sharing.Holding {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ledger.Held()
}

// Placeholders returns what the placeholder IDs of a resource stand for.
func (n *Node) Placeholders(resource string) []sharing.Placeholder {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ledger.Placeholders(resource)
}

// ReadDriver does what Run does when the inventory has changed.
func (n *Node) ReadDriver(ctx context.Context) error { return n.readDriver(ctx) }
