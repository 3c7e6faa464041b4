// Package state is what Berth's scheduler plugins know of pods between a decision
// and its binding: the devices that were chosen for a pod, that are held for it,
// and that a binding of unknown fate may have taken. State has it all under one
// lock. Everything else comes from the scheduler's NodeInfos, so a new scheduler
// starts with nothing and knows the same. A Ledger is the devices of one node.
//
// The plugins use this package and package nodeindex, never the other way round:
//
//	fit  gang  preempt -> nodeindex -> state -> queue, quota
//	preempt -> gang, evict, reserve -> nodeindex
//
// Locks, in the order in which they are taken. While one is held, those to its
// right may be taken, and none to its left:
//
//	nodeindex.Cluster.Index.Mu  State.Mu  Ledger.mu
//	gang.Manager.mu  queue.Waits.mu
//	reserve.Reservations.mu, before nodeindex.Cluster.Index.Mu
//
// The scheduler's queue calls PreEnqueue and queueing hints under its own lock,
// and these take gang.Manager.mu and queue.Lines.mu. So with one of these held,
// the queue must not be called: pods are activated, and holds released, after
// unlocking.
package state
