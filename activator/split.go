package activator

import (
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/kube/serving"
)

// split is how the requests for a Service are divided. The zero value is that they are not.
type split struct {
	revision string // the canary
	percent  int
	at       func(*v1.ServicePort) *endpoints // of the canary
}

// undivided is that all requests go to the same pods.
func undivided() split { return split{at: func(*v1.ServicePort) *endpoints { return &endpoints{} }} }

// splitOf reads how the requests for a Service are divided, as the Service of the predictor says it for all of an InferenceService, and where the
// canary answers: by its pods if the activator stays, else by EndpointSlices.
func (f *follower) splitOf(svc *v1.Service, staying bool) (out split, err error) {
	out = undivided()
	says, err := f.services.Services(svc.Namespace).Get(serving.ChildName(svc.Labels[LabelService]))
	if apierrors.IsNotFound(err) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	var ok bool
	if out.revision, out.percent, ok = serving.SplitOf(says); !ok {
		return out, nil
	}
	canary, err := f.services.Services(svc.Namespace).Get(serving.CanaryName(svc.Labels[LabelService]))
	if apierrors.IsNotFound(err) || err == nil && (canary.DeletionTimestamp != nil || !serving.IsCanary(canary.Labels)) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if !staying {
		all, err := f.slices.EndpointSlices(svc.Namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: canary.Name}))
		out.at = func(port *v1.ServicePort) *endpoints { return ready(all, portLike(canary, port).Name) }
		return out, err
	}
	pods, err := f.pods.Pods(svc.Namespace).List(podsOf(canary))
	out.at = func(port *v1.ServicePort) *endpoints { return answering(pods, portLike(canary, port)) }
	return out, err
}

// portLike returns the port of a Service that has the name of a port of another one, or else leads to the same port of pods; else that
// port itself.
func portLike(s *v1.Service, port *v1.ServicePort) *v1.ServicePort {
	like := port
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.Name == port.Name {
			return p
		}
		if p.TargetPort == port.TargetPort && like == port {
			like = p
		}
	}
	return like
}
