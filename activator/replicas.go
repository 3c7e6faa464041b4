package activator

import (
	"context"
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"

	"berth.dev/berth/api"
)

// replicas are the pods of the activator that are ready, as the Service before them says.
type replicas struct {
	service types.NamespacedName
	slices  discoverylisters.EndpointSliceLister
}

// ready reports whether a replica is ready. Without a Service there is only one, which is.
func (r *replicas) ready(name string) (bool, error) {
	if r == nil {
		return true, nil
	}
	all, err := r.slices.EndpointSlices(r.service.Namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: r.service.Name}))
	if err != nil {
		return false, fmt.Errorf("find the replicas of the activator: %w", err)
	}
	return slices.ContainsFunc(all, func(s *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
			return e.TargetRef != nil && e.TargetRef.Name == name && (e.Conditions.Ready == nil || *e.Conditions.Ready)
		})
	}), nil
}

// place returns which of the ready replicas one is, by name, from 0, and how many there are. One that is not ready counts as if it were.
func (r *replicas) place(name string) (place, of int, err error) {
	if r == nil {
		return 0, 1, nil
	}
	all, err := r.slices.EndpointSlices(r.service.Namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: r.service.Name}))
	if err != nil {
		return 0, 0, fmt.Errorf("find the replicas of the activator: %w", err)
	}
	names := []string{name}
	for _, s := range all {
		for _, e := range s.Endpoints {
			if e.TargetRef != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				names = append(names, e.TargetRef.Name)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.Index(names, name), len(names), nil
}

// sweep removes the slices of a Service of replicas that are not ready any longer, as nothing answers there.
func (f *follower) sweep(ctx context.Context, all []*discoveryv1.EndpointSlice) error {
	for _, s := range all {
		of := s.Labels[api.LabelActivator]
		if f.replicas == nil || !ours(s) || of == f.set.o.Name {
			continue
		}
		alive, err := f.replicas.ready(of)
		if err != nil {
			return err
		}
		if alive {
			continue
		}
		err = f.set.o.Client.DiscoveryV1().EndpointSlices(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("remove the EndpointSlice of a replica that has gone: %w", err)
		}
	}
	return nil
}
