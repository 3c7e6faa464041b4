// Package pods tells the node agent which pods are bound to its node, from the
// API server by one watch, or from the kubelet's own API on a node that has no
// API server. It keeps of a pod what the agent needs, and decides nothing.
package pods
