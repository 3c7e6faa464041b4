package service

import (
	"context"
	"fmt"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	objects "berth.dev/berth/kube/serving"
)

// way returns the path below /api/v1 by which the API server passes requests on to a service: to its Service, or to an activator, if
// all requests go through these. The API server does not follow EndpointSlices to them itself.
func (s *services) way(ctx context.Context, name string) ([]string, error) {
	direct := []string{"namespaces", s.namespace, "services", name + ":80", "proxy"}
	svc, err := s.CoreV1().Services(s.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && !objects.ThroughActivator(svc) {
		return direct, nil
	}
	if err != nil {
		return nil, s.Failed("read the Service of "+name, err)
	}
	all, err := s.DiscoveryV1().EndpointSlices(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name + "," + api.LabelActivator})
	if err != nil {
		return nil, s.Failed("find the activators of "+name, err)
	}
	for i := range all.Items {
		for _, p := range all.Items[i].Ports {
			if p.Port != nil {
				pod := all.Items[i].Labels[api.LabelActivator] + ":" + strconv.Itoa(int(*p.Port))
				return []string{"namespaces", api.ActivatorNamespace, "pods", pod, "proxy"}, nil
			}
		}
	}
	return nil, fmt.Errorf("requests for %s go through activators, and none is ready: see `kubectl get pods -n %s -l app=%s`", name, api.ActivatorNamespace, api.ActivatorApp)
}
