// Package training runs TFJobs and PyTorchJobs of kubeflow.org/v1: it creates and deletes their pods and
// Services and writes their status, as core/training decides. It never writes a job's spec.
package training
