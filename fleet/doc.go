// Package fleet is the engine of the simulated nodes: it registers them, keeps
// their leases, and does for the pods bound to them what kubelets, a device
// plugin and a volume provisioner do on real nodes. It writes to the API server
// only what those would write, and only for nodes labeled
// berth.dev/simulated=true.
//
// It is not a scheduler and not a network: it chooses no node, and it never
// opens or dials an address. Containers are simulated, but for those that a rule
// of the person who started it backs by a process of this machine: see host.go
// and package host. The kubelet's HTTP side is package kubelet, which
// reads the engine through kubelet.Runtime.
//
// Everything a pod does follows from API objects and the time: the plan of a
// container is a pure function (Behave), logs are worked out when a client reads
// them, and after a restart the state is read back from pod status. So nothing
// but the API server has to be kept.
package fleet
