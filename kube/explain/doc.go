// Package explain says why a pod waits, which change would let it start, and when it is likely
// to start, from Node and Pod objects alone. It builds the input of the rules in core from
// objects.
package explain
