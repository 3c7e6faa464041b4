// Package idle stops unused notebooks, and suspends training jobs whose GPUs are idle, if a
// policy asks for it: it asks servers and the exporters of GPUs, asks core/idle what follows,
// and writes that as annotations that Kubeflow honors too, or as the suspension of the job.
// The controller of the notebook or job, Berth's or Kubeflow's own, then deletes the pods.
// Only servers of JupyterHubs are deleted here, which have no controller.
package idle
