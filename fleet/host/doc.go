// Package host runs processes of this machine in place of simulated containers,
// where the person who starts `berth up` allows it: it starts the command of a
// rule, keeps its log, watches whether it answers and on which addresses it
// listens, and ends it with its container.
//
// It is not a container runtime and not a sandbox: a process runs as the user of
// `berth up`, with that user's files and network. Nothing of a pod's spec is
// executed; only the command of the rule is, and of the pod it gets the
// environment that Environ leaves. It knows nothing of Kubernetes objects:
// package fleet says what to start and asks what became of it.
package host
