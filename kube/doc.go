// Package kube is where Kubernetes objects and Berth's own values meet. It
// reads which GPUs a cluster has, who holds them and who waits for some, from
// Node and Pod objects alone, so that it works where nothing of Berth is
// installed. It decides nothing, and it talks to no API server: callers list
// or watch, and hand the objects in.
package kube
