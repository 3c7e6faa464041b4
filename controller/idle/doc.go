// Package idle stops unused notebooks if a policy asks for it: it
// asks their servers and the exporters of their GPUs, asks core/idle what follows,
// and writes that as annotations that Kubeflow honors too. It makes and deletes
// nothing: the controller of the notebook, controller/notebook or Kubeflow's own
// controller, takes the pod away when the annotation is there.
package idle
