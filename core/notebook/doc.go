// Package notebook holds the decisions that only Notebooks need: whether a change
// means one restart or has to wait, the conditions of their status, and the timeline
// of a start. Why one waits is a question about any pod, in package explain.
package notebook
