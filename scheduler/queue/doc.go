// Package queue keeps the pods that fit nowhere in the lines of core/queue, and
// what each refused pod waits for. Its plugin keeps pods that are not the first of
// their line out of the scheduler's way.
package queue
