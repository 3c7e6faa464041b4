// Package allocation decides which container of a real node gets which GPU, and
// keeps it so over restarts of the agent, the kubelet and the containers.
//
// The kubelet asks in two steps. Allocate says only how many devices a container
// gets, so the answer is a name: one CDI device that does not exist yet, and no
// GPU. PreStartContainer comes before each start. By then the kubelet's checkpoint
// says which pod and container it is for (whichpod.go), and the devices that the
// scheduler committed to that pod are written as the CDI spec of the name. Without
// that file the container runtime starts nothing. The spec files are the record:
// an agent that was killed reads them and knows who holds what.
//
// The parts, each of which imports only those before it: package notice (what
// people are told), checkpoint (what the kubelet allocated), ledger (who holds
// which device), cdi (the specs). Node joins them.
//
// The package does not speak gRPC to the kubelet's device manager, call NVML or
// choose nodes; deviceplugin, nvml and, in the scheduler, core/placement do. It
// never stops a container: devices of a pod stay its own until the pod has ended.
package allocation
