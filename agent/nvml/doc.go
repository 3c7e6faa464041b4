// Package nvml says what NVIDIA's driver knows of a node: its GPUs, MIG devices,
// readings, processes and events, and does the few things to them that a node
// agent has to: cut MIG, limit memory, set the compute mode.
//
// It has two sides. In the child process, Serve answers requests out of a
// Library, the seam to NVML itself (package real of cmd/berth-nvml) or to GPUs
// that do not exist (package fakegpu). In the parent, a Client runs that child,
// restarts it when it dies or hangs, and offers its answers as values. A missing
// NVML symbol ends a process and a lost GPU can hang it, so no other process
// may call NVML.
//
// The package has no cgo, decides nothing about health or sharing, and knows
// nothing of Kubernetes.
package nvml
