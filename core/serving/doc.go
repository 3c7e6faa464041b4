// Package serving decides what a service that answers for a model needs: which runtime serves its format, how many replicas
// it has, how a new revision takes the place of the one before, and what its status says. It knows nothing of Kubernetes.
package serving
