// Package leader keeps two schedulers from deciding at the same time. A new
// leader catches up with what the one before it has bound, writes pass a Gate
// only while this process leads, and a Lease is released only when every
// write has been answered. Bindings name who sends them, so the API server
// refuses those of the leader before that it gets later; a new leader waits
// until it does. The election itself is client-go's.
package leader
