// Package allocation decides which container of a real node gets which GPU, and
// keeps it so over restarts of the agent, the kubelet and the containers.
//
// The kubelet asks in two steps. Allocate says only how many devices a container
// gets, so it is answered with a name: one CDI device that does not exist yet,
// and no GPU. PreStartContainer comes before each start; by then the kubelet's
// checkpoint tells pod and container, and the devices that the scheduler has
// committed to that pod are written as the CDI spec of the name. Without that
// file the container runtime starts nothing. The spec files are the record: an
// agent that was killed reads them and knows who holds what.
//
// It does not speak gRPC, call NVML or choose nodes; those are packages
// deviceplugin, nvml and, in the scheduler, core/placement. It never ends a
// container: devices of a pod stay its own until the pod has ended.
package allocation
