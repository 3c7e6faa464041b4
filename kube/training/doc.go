// Package training translates TFJobs and PyTorchJobs, their pods, and their Services to
// the values of core/training, and what core/training decides to objects.
package training
