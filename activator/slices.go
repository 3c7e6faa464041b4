package activator

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
)

// ManagedBy is the value of the label by which EndpointSlices of the activator are known.
const ManagedBy = "activator.berth.dev"

// ours reports whether a slice is the activator's, of this or another replica.
func ours(s *discoveryv1.EndpointSlice) bool {
	return s.Labels[discoveryv1.LabelManagedBy] == ManagedBy
}

// ready returns the ready endpoints of a port among slices.
func ready(all []*discoveryv1.EndpointSlice, port string) *endpoints {
	out := &endpoints{}
	for _, s := range all {
		if ours(s) {
			continue
		}
		for _, p := range s.Ports {
			if p.Port == nil || value(p.Name) != port {
				continue
			}
			for _, e := range s.Endpoints {
				if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
					continue
				}
				out.addresses = append(out.addresses, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
				if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
					out.pods = append(out.pods, types.NamespacedName{Namespace: s.Namespace, Name: e.TargetRef.Name})
				}
			}
		}
	}
	return out.sorted()
}

// portIn returns the number of a port in a slice, or 0.
func portIn(s *discoveryv1.EndpointSlice, name string) int32 {
	if s == nil {
		return 0
	}
	for _, p := range s.Ports {
		if p.Port != nil && value(p.Name) == name {
			return *p.Port
		}
	}
	return 0
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// sliceName returns the name of this replica's slice of a Service.
func (s *Set) sliceName(service string) string {
	suffix := "-activator"
	if s.o.Name != "" {
		suffix += "-" + s.o.Name
	}
	return service[:min(len(service), 253-len(suffix))] + suffix
}

// slice returns the EndpointSlice that leads a Service to this replica.
func (s *Set) slice(svc *v1.Service, ports map[string]int32) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: svc.Namespace, Name: s.sliceName(svc.Name),
			Labels: map[string]string{
				discoveryv1.LabelServiceName: svc.Name, discoveryv1.LabelManagedBy: ManagedBy, LabelService: svc.Labels[LabelService],
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: svc.Name, UID: svc.UID}},
		},
		AddressType: family(s.o.Address),
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{s.o.Address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	}
	if s.o.Name != "" {
		out.Labels[api.LabelActivator] = s.o.Name
	}
	for _, p := range svc.Spec.Ports {
		if port, ok := ports[p.Name]; ok {
			out.Ports = append(out.Ports, discoveryv1.EndpointPort{Name: new(p.Name), Port: new(port), Protocol: new(v1.ProtocolTCP)})
		}
	}
	return out
}

func family(address string) discoveryv1.AddressType {
	if strings.Contains(address, ":") {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

// write brings this replica's slice of a Service to what is wanted; nil is none. had is
// the slice that is there, or nil.
func (s *Set) write(ctx context.Context, had, want *discoveryv1.EndpointSlice) error {
	api := s.o.Client.DiscoveryV1()
	var err error
	switch {
	case want == nil && had == nil:
		return nil
	case want == nil:
		err = api.EndpointSlices(had.Namespace).Delete(ctx, had.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &had.UID}})
	case had == nil:
		_, err = api.EndpointSlices(want.Namespace).Create(ctx, want, metav1.CreateOptions{})
	case equality.Semantic.DeepEqual(had.Endpoints, want.Endpoints) && equality.Semantic.DeepEqual(had.Ports, want.Ports):
		return nil
	default:
		next := had.DeepCopy()
		next.Endpoints, next.Ports, next.Labels, next.OwnerReferences = want.Endpoints, want.Ports, want.Labels, want.OwnerReferences
		_, err = api.EndpointSlices(want.Namespace).Update(ctx, next, metav1.UpdateOptions{})
	}
	if apierrors.IsNotFound(err) && want == nil || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil // what is there now comes as an event
	}
	if err != nil {
		return fmt.Errorf("write the EndpointSlice of the activator: %w", err)
	}
	return nil
}
