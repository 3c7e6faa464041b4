// Package commit reads and writes the two annotations that say which devices pods have:
// berth.dev/devices on a pod, which the scheduler writes with the binding, and
// berth.dev/observed-devices on a node, which the node agent writes.
package commit
