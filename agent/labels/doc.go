// Package labels writes to the API what a node agent has to say of its node: the
// labels that GPU Feature Discovery writes, the inventory and other annotations of
// Berth, and events of the node and its pods. It decides nothing about GPUs; what
// it writes comes from the driver, the agent's table and package health.
//
// Everything on the Node is one server-side apply under the field manager
// berth-agent: what is not in it any longer, the API server removes. Labels of
// NVIDIA's that another manager writes are left to it.
//
// What it needs: get and patch on its own Node, create and patch on events. It writes the
// names of OwnLabels, MIGLabels and OwnAnnotations, and no others.
package labels
