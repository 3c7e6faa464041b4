// Package system has the objects that a cluster with GPUs has before its users
// come: NVIDIA's device plugin and operator, storage classes, and the metrics
// API. The objects are the real kinds with real names and labels; what their
// pods do on a simulated node is the fleet's affair, not this package's.
package system

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api"
)

// Simulated is the sentence on every object of this package,
// api.AnnotationSimulated.
const Simulated = "This object is part of Berth's simulated GPU cluster: its pods run nothing."

// Namespaces of the objects. Other namespaces are for users to create.
const (
	OperatorNamespace = "gpu-operator"
	KubeNamespace     = metav1.NamespaceSystem
)

// The version of NVIDIA's GPU operator that the objects follow, and of the
// images it installs, from its component matrix.
const (
	operatorVersion = "v25.3.0"
	driverImage     = "nvcr.io/nvidia/driver:570.124.06-ubuntu22.04"
	pluginImage     = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"
	toolkitImage    = "nvcr.io/nvidia/k8s/container-toolkit:v1.17.5-ubuntu20.04"
	exporterImage   = "nvcr.io/nvidia/k8s/dcgm-exporter:4.1.1-4.0.4-ubuntu22.04"
	operatorImage   = "nvcr.io/nvidia/gpu-operator:" + operatorVersion
)

// Options say what Objects differ by.
type Options struct {
	// GPU adds what NVIDIA installs: the namespace gpu-operator, the
	// DaemonSets, the operator. False leaves storage and metrics only.
	GPU bool
	// CABundle is the PEM of the authority that signed the certificate of
	// metrics-server.kube-system.svc.
	CABundle []byte
	// MetricsIP is the address behind the Service metrics-server: one of the
	// simulated network, not loopback. Its port is MetricsPort. "" is
	// DefaultMetricsIP.
	MetricsIP string
}

// DefaultMetricsIP is at the end of the network of simulated nodes, beyond the
// last node.
const DefaultMetricsIP = "10.64.255.254"

// Objects returns all objects in the order in which to create them: a
// namespace before what is in it.
func Objects(o Options) []runtime.Object {
	if o.MetricsIP == "" {
		o.MetricsIP = DefaultMetricsIP
	}
	list := []runtime.Object{
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: KubeNamespace}},
	}
	list = append(list, StorageClasses()...)
	list = append(list, MetricsAPI(o.CABundle, o.MetricsIP)...)
	if o.GPU {
		list = append(list, &v1.Namespace{ObjectMeta: meta("", OperatorNamespace, nil)}, Plugin())
		list = append(list, Operator()...)
	}
	return list
}

// meta returns the metadata that all objects share.
func meta(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: labels,
		Annotations: map[string]string{api.AnnotationSimulated: Simulated},
	}
}
