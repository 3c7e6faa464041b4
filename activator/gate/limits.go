package gate

import (
	"fmt"
	"time"

	"berth.dev/berth/core/serving"
)

// Limits bound what a Gate holds. Zero values are those of Default, but for PerBackend.
type Limits struct {
	Held       int           // most requests held at a time
	Bytes      int64         // most bytes of requests held at a time
	Wait       time.Duration // longest time from the arrival of a request until a backend has it
	PerBackend int           // most requests in flight at one backend, from all gates of the service; 0 is without a limit
	// Gates is how many gates of other processes have the same backends, this one included, and Place which of them this one is, from 0: they
	// share PerBackend. 0 is that this is the only one.
	Gates, Place int
}

// at is the most requests in flight at the backend of an index; 0 is without a limit.
func (l *Limits) at(index int) int {
	if l.PerBackend <= 0 {
		return 0
	}
	return serving.Slots(l.PerBackend, l.Gates, l.Place, index)
}

// Default returns the limits of a service that sets none: 10,000 requests and 64 MiB,
// each held for two minutes at most.
func Default() Limits { return Limits{Held: 10_000, Bytes: 64 << 20, Wait: 2 * time.Minute} }

// orDefault fills in the limits that are not set.
func (l Limits) orDefault() Limits {
	d := Default()
	if l.Held <= 0 {
		l.Held = d.Held
	}
	if l.Bytes <= 0 {
		l.Bytes = d.Bytes
	}
	if l.Wait <= 0 {
		l.Wait = d.Wait
	}
	return l
}

// A Reason is why a request was not let through.
type Reason string

// The reasons of a Refusal.
const (
	TooMany  Reason = "TooMany"  // as many requests are held as may be
	TooLarge Reason = "TooLarge" // as many bytes are held as may be
	TooLong  Reason = "TooLong"  // the request was held for as long as may be
	Closed   Reason = "Closed"   // the service was removed, or the process ends
	WentAway Reason = "WentAway" // the client did not wait
)

// A Refusal is the error of a request that is not let through.
type Refusal struct {
	Reason Reason
	Text   string // a clause for people, such as "10000 requests are held for it, the most that may be"
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

func tooMany(l Limits) *Refusal {
	return &Refusal{TooMany, fmt.Sprintf("%d requests are held for it, the most that may be", l.Held)}
}

func tooLarge(l Limits) *Refusal {
	return &Refusal{TooLarge, fmt.Sprintf("requests of %d bytes are held for it, the most that may be", l.Bytes)}
}

func tooLong(l Limits) *Refusal {
	return &Refusal{TooLong, fmt.Sprintf("the request was held for %s, the longest that may be", l.Wait)}
}
