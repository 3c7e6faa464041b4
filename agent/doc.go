// Package agent is the node agent: one daemon that serves a node's GPUs to its
// kubelet, labels the node, judges and restores the health of GPUs, cuts them by
// MIG, runs MPS, and serves metrics. It joins the packages below it and restarts
// what can fail; what is decided is theirs and core's.
//
// It never talks to the driver itself: a child process does (package nvml), which
// may die with a driver that lacks a symbol, or hang with a GPU that is lost,
// while registration, containers and metrics go on.
package agent
