// Package idle stops notebooks that nobody uses, where a policy asks for it: it
// asks their servers and the exporters of their GPUs, asks core/idle what follows,
// and writes that as annotations that Kubeflow honours too. It makes and deletes
// nothing: whoever runs the notebook, controller/notebook or Kubeflow's own
// controller, takes the pod away when the annotation is there.
package idle
