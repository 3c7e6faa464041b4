// Package filters asks kube-scheduler's own filters about pods that Berth plans
// together, as gang.Filters: where each could go beside those that are placed already.
package filters
