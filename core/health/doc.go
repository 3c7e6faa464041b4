// Package health decides whether the GPUs and MIG devices of a node may be given
// to containers: it turns Xids, losses and the answers of probes into one verdict
// per device, and says which GPU to probe, and when, until it has proven itself
// well. It reads no driver, holds no timer and marks nothing on a node; every
// method is told what time it is.
//
// NVIDIA's device plugin leaves a GPU unhealthy until it restarts. Here a
// GPU comes back by itself: see recovery.go for what it has to show.
package health
