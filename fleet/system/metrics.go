package system

import (
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// The Service of the metrics API; its TLS name is
// metrics-server.kube-system.svc. MetricsPort is the port of the Service and
// that of the server behind it.
const (
	MetricsService   = "metrics-server"
	MetricsNamespace = KubeNamespace
	MetricsPort      = 443
)

// MetricsAPI returns what makes `kubectl top` work: the APIService of
// metrics.k8s.io/v1beta1, its Service, and the EndpointSlice without which the
// API server calls the APIService unavailable. caBundle is the PEM of the
// server's authority; ip is its address in the simulated network.
func MetricsAPI(caBundle []byte, ip string) []runtime.Object {
	labels := map[string]string{"k8s-app": MetricsService}
	service := &v1.Service{
		ObjectMeta: meta(MetricsNamespace, MetricsService, labels),
		Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{
			Name: "https", Port: MetricsPort, TargetPort: intstr.FromInt32(MetricsPort), Protocol: v1.ProtocolTCP, AppProtocol: new("https"),
		}}},
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: meta(MetricsNamespace, MetricsService, map[string]string{
			discoveryv1.LabelServiceName: MetricsService,
			discoveryv1.LabelManagedBy:   "fleet.berth.dev",
		}),
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{ip},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(MetricsPort)), Protocol: new(v1.ProtocolTCP)}},
	}
	registration := &apiregistrationv1.APIService{
		ObjectMeta: meta("", "v1beta1.metrics.k8s.io", labels),
		Spec: apiregistrationv1.APIServiceSpec{
			Service:              &apiregistrationv1.ServiceReference{Namespace: MetricsNamespace, Name: MetricsService, Port: new(int32(MetricsPort))},
			Group:                "metrics.k8s.io",
			Version:              "v1beta1",
			CABundle:             caBundle,
			GroupPriorityMinimum: 100,
			VersionPriority:      100,
		},
	}
	return []runtime.Object{service, slice, registration}
}
