// Package server runs kube-scheduler with Berth's plugins as a process of its
// own, against any cluster, and says how such a scheduler is configured wherever
// it runs. It chooses nothing: which pod goes where is decided by the plugins of
// folder scheduler/, and by upstream's. It is the only package of that folder
// that compiles k8s.io/kubernetes.
package server
