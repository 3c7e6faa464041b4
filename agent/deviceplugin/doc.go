// Package deviceplugin speaks the kubelet's device plugin protocol, v1beta1:
// one gRPC server on a unix socket for each resource, registered with the
// kubelet and again whenever the kubelet has forgotten it.
//
// It does not know what a GPU is. What is offered and what an allocation gives
// is asked of a Node; this package keeps the kubelet's picture of it right over
// restarts of either side, deleted sockets and other plugins.
//
// The protocol is k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1; what the
// kubelet makes of it is read from its device manager, v1.36
// (pkg/kubelet/cm/devicemanager).
package deviceplugin
