// Package remote reads what a Prometheus beside the store has of the same exporters, so they are not read and kept twice. Its series get the labels that they
// would have in the store, and both are asked as one.
package remote
