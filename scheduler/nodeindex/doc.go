// Package nodeindex is how Berth's scheduler plugins see the nodes: a cluster.Snapshot
// with the placement index over it, brought up to date from the scheduler's
// NodeInfos and from package state. A Planner plans for several pods at once.
package nodeindex
