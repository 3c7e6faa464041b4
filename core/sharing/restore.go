package sharing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Restore notes what owner already held, by device IDs, after a restart. It
// takes all of ids or none. A device may be unhealthy by now; one that owner
// holds already is no error. Errors: a device the node does not offer, one
// that another owner holds (both are named), and shares by size beyond what
// their GPU has left or on one that is held whole.
func (l *Ledger) Restore(owner string, ids []string) error {
	if owner == "" {
		return errNoOwner
	}
	var done []string
	for _, id := range ids {
		if h, ok := l.held[id]; ok && h.Owner == owner {
			continue
		}
		d, err := l.find(id)
		if err == nil {
			err = l.clash(d)
		}
		if err != nil {
			l.undo(done)
			return fmt.Errorf("restore device %s of %s: %w", id, owner, err)
		}
		l.hold(owner, d)
		done = append(done, id)
	}
	return nil
}

// errNoOwner: a holding without owner could never be released.
var errNoOwner = errors.New("the owner of a device has no name; name the pod and container")

// What a refusal of the ledger is about, for callers that count them. Texts are
// in the errors themselves.
var (
	// ErrNotOffered: this node has no such device, or not in that form.
	ErrNotOffered = errors.New("this node does not offer it")
	// ErrTaken: the device, or too much of it, is held by others.
	ErrTaken = errors.New("it is taken")
)

// refused is an error about one of the above, with a text of its own.
type refused struct {
	is   error
	text string
}

// Error returns the text.
func (r refused) Error() string        { return r.text }
func (r refused) Is(target error) bool { return target == r.is }

func taken(format string, args ...any) error { return refused{ErrTaken, fmt.Sprintf(format, args...)} }

// undo takes back devices by ID.
func (l *Ledger) undo(ids []string) {
	const nobody = "\x00undo"
	for _, id := range ids {
		h := l.held[id]
		h.Owner = nobody
		l.held[id] = h
	}
	l.Release(nobody)
}

// find returns the device of an ID, held or not.
func (l *Ledger) find(id string) (Device, error) {
	if d, ok := l.byID[id]; ok {
		return d, nil
	}
	uuid, size, ok := ParseSizeID(id)
	i, there := l.card[uuid]
	if !ok || !there {
		return Device{}, ErrNotOffered
	}
	return shareDevice(&l.cards[i], id, size), nil
}

// clash says why d cannot be held beside what is.
func (l *Ledger) clash(d Device) error {
	if h, ok := l.held[d.ID]; ok {
		return taken("it is held by %s", h.Owner)
	}
	if d.Resource != ResourceMemory {
		if _, shared := l.used[d.UUID]; shared {
			return taken("its memory is held by %s", strings.Join(l.owners(d.UUID), " and "))
		}
		return nil
	}
	if h, ok := l.held[d.UUID]; ok {
		return taken("the whole GPU is held by %s", h.Owner)
	}
	g := &l.cards[l.card[d.UUID]]
	switch milli, bytes := l.left(g); {
	case d.MemoryBytes > bytes:
		return taken("its GPU has %s left of %s", sizeText(bytes), sizeText(g.MemoryBytes))
	case d.MilliGPU > milli:
		return taken("its GPU has %d milli-GPUs left of 1000", milli)
	}
	return nil
}

// owners returns who holds shares of a GPU or MIG device, sorted.
func (l *Ledger) owners(uuid string) []string {
	var out []string
	for _, h := range l.held {
		if h.Device.UUID == uuid {
			out = append(out, h.Owner)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// hold notes a holding that clash has nothing against.
func (l *Ledger) hold(owner string, d Device) {
	l.held[d.ID] = Holding{Owner: owner, Device: d}
	if d.Resource == ResourceMemory {
		u := l.used[d.UUID]
		l.used[d.UUID] = use{u.shares + 1, u.milli + d.MilliGPU, u.bytes + d.MemoryBytes}
	}
}
