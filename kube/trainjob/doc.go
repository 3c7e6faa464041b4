// Package trainjob reads TrainJobs with the training runtimes that they name, as Kubeflow Trainer 2.0 to 2.2 does
// (pkg/runtime of kubeflow/trainer): how many pods a job has, and the template of one. It does not say what happens
// to the pods: kube/training makes a training job of it, which core/training decides as any other.
package trainjob
