// Package sim runs the decisions of core in virtual time: on traces and on
// synthetic requests, with a seed, and with no Kubernetes at all. Equal inputs
// and seeds give equal results to the last bit. It decides nothing itself, and
// prints nothing.
package sim
