// Package view is the read model of a cluster: its nodes, who holds their GPUs, who waits, and
// how Berth runs there. Commands and the console print it.
package view
