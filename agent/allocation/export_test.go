package allocation

import (
	"context"
	"errors"

	"berth.dev/berth/core/sharing"
)

// ErrKilled is what a step that was killed ends with.
var ErrKilled = errors.New("killed")

// KillAt ends the work of the node at the step-th change of the folder of CDI
// specs from now, as kill -9 would: what comes after does not happen. It returns
// whether that has happened.
func (n *Node) KillAt(step int) (killed func() bool) {
	done := false
	n.files.step = func(string) error {
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

// FailWrites has changes of the folder fail.
func (n *Node) FailWrites(err error) { n.files.step = func(string) error { return err } }

// Ledger gives what the node's ledger holds.
func (n *Node) Ledger() []sharing.Holding {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ledger.Held()
}

// Tokens gives what the tokens of a resource stand for.
func (n *Node) Tokens(resource string) []sharing.Token {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tokens.List(resource)
}

// ReadDriver does what Run does when the inventory has changed.
func (n *Node) ReadDriver(ctx context.Context) error { return n.readDriver(ctx) }

// Checkpoints gives what reads the checkpoint in a folder again and again, and the
// pod of its one entry.
func Checkpoints(dir string) (pod func() (string, error)) {
	c := newCheckpoint(dir)
	return func() (string, error) {
		entries, err := c.read()
		if err != nil || len(entries) != 1 {
			return "", err
		}
		return entries[0].PodUID, nil
	}
}

// Checkpoint reads a kubelet's checkpoint and says how many entries it has.
func Checkpoint(raw []byte) (int, error) {
	entries, err := parseCheckpoint(raw)
	if err == nil {
		err = readNonces(entries)
	}
	return len(entries), err
}
