// Package hardware checks on a machine with an NVIDIA GPU what tests without
// one take for granted: that NVML's numbers, units and tables are those that
// the node agent counts on.
//
// The checks are tests under the build tag hardware, which test/hardware/run.sh
// builds and runs. Beside them is a small load for the GPU, which needs nothing
// but the driver. Nothing that ships imports this package.
package hardware
