// Package usage is the account of a node's GPUs: who held which parts of them, and when.
//
// A node's time is cut into spans in which nothing changes. In each, what is held, idle, and stranded adds up to
// the GPUs that the node has: there is no other place for a GPU-second to be, and none that is counted twice.
package usage
