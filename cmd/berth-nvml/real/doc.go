// Package real answers agent/nvml's questions out of NVIDIA's own library,
// libnvidia-ml.so.1, and writes CDI specifications of the driver's files.
//
// It is the only package of Berth that needs cgo; without cgo it has nothing in
// it but the reading of files. It decides nothing: one method is one call of
// NVML. Each call is made only after its symbol has been found in the library
// that is loaded, since a program that calls a function which the driver does
// not have ends at once, with no error to handle.
//
// For the same reason a program with this package must not be linked with
// "-z now" nor run with LD_BIND_NOW: it names functions that no driver has all
// of, and they must be looked up when they are called.
package real
