// Package report writes what the scheduler has to say of pods: conditions that also
// tell whether a new node would help, and events without the ones that repeat.
package report
