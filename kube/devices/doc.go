// Package devices reads which GPUs a node has and which pods hold them, from Node and Pod
// objects alone, on clusters with or without Berth. It makes no decisions: package snapshot
// turns its counts into a cluster.Snapshot.
package devices
