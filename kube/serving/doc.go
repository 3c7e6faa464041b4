// Package serving reads InferenceServices and runtimes of KServe as core/serving sees them, and makes the objects of a service, with
// the names, labels, and arguments that KServe gives them in its Standard (raw) mode.
package serving
