// Package notebook runs Notebooks of kubeflow.org: for each a StatefulSet of one
// pod, a Service and, where Istio's kind is there, a VirtualService, all of the
// names and shapes that Kubeflow's notebook-controller gives them. It reads
// objects, asks core/notebook what to do and say, and writes that. It never writes
// a Notebook's spec, puts no finalizer on anything and injects no container. It
// stops no idle notebook: that is controller/idle.
package notebook
