// Package explain says why a workload is not ready or still waits, what would help,
// where it stands in line, and when it is likely to start. It takes plain facts about
// one pod and its cluster and returns a reason, a sentence, and an estimate; it knows
// no API and no kind of workload. Package kube/explain builds its input from objects.
package explain
