// Package training decides what a TFJob or PyTorchJob of kubeflow.org/v1 needs next:
// which pods and Services to create and delete, what their environment is, and what
// its status says. It is compatible with Kubeflow's training-operator 1.7 to 1.9, whose
// contract is described with each function: names, environment, conditions, reasons,
// and messages are what clients of that operator wait for.
//
// It differs where upstream's behavior loses work. Each difference is named where it is
// made: a pod that is evicted or deleted does not count as a failure of the program, restarts count
// towards the backoff limit also where pods are created again, and nothing is injected
// into pods.
package training
