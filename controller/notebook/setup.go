package notebook

import (
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Name is the controller's name: in metrics, logs and as the field manager and
// source of events.
const Name = "berth-notebook"

// Mode is how far Berth goes with a kind that another controller may run too.
type Mode string

// The modes.
const (
	Own    Mode = "own"    // Berth runs the kind
	Govern Mode = "govern" // another controller runs it; Berth uses the levers that it honours
	Off    Mode = "off"    // Berth leaves it alone
)

// Options is what the reconciler needs to know. The zero value, but for FSGroup, is
// what Kubeflow's controller does without environment settings.
type Options struct {
	// Domain is the cluster's DNS domain, for VirtualServices; "" is cluster.local.
	Domain string
	// FSGroup gives pods without any security context the fsGroup 100, as Kubeflow
	// does unless ADD_FSGROUP is false.
	FSGroup bool
	// Istio makes VirtualServices, if the cluster has that kind.
	Istio bool
	// IstioGateway is the gateway that they name; "" is kubeflow/kubeflow-gateway.
	IstioGateway string
	// IstioHost is the host that they serve; "" is "*".
	IstioHost string
	// Mode is asked before every pass; in all modes but Own nothing is done. Nil
	// is Own.
	Mode func() Mode
	// ModeChanged, if not nil, gets an event, of an object that means nothing, each
	// time Mode gives another answer: every notebook is looked at again then.
	ModeChanged <-chan event.GenericEvent
}

// Add adds the reconciler to a manager, whose cache should have CacheOptions and
// whose scheme must have kubeflow.AddToScheme and client-go's.
func Add(mgr manager.Manager, o Options) error {
	return nil
}
