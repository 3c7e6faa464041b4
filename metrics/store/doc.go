// Package store keeps readings for a day or so in bounded memory, and gives them to the PromQL engine of Prometheus. A series is a
// ring of compressed chunks: those that are full are in slabs outside the heap, the oldest of which make room for new ones.
// Samples lie on ticks of one step: their times take one bit each. The store knows nothing of GPUs, files of rules, or
// where samples come from.
package store
