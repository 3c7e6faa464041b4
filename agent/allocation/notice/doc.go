// Package notice holds what the node tells people: why a container does not
// start, counted by reason, and the events about pods and the node.
//
// It decides nothing about devices and writes to no API server; the functions in
// Events do that.
package notice
