package activator

import (
	"net"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
)

// podsOf selects the pods of a Service for which the activator stays.
func podsOf(s *v1.Service) labels.Selector {
	set := labels.Set{}
	for key, value := range s.Spec.Selector {
		if key != api.SelectorActivator {
			set[key] = value
		}
	}
	return labels.SelectorFromSet(set)
}

// endpoints are the addresses of ready pods at a port, as host:port in order, and these pods.
type endpoints struct {
	addresses []string
	pods      []types.NamespacedName
}

// sorted puts the addresses in order, each once.
func (e *endpoints) sorted() *endpoints {
	slices.Sort(e.addresses)
	e.addresses = slices.Compact(e.addresses)
	return e
}

// answering returns the ready pods at a port of a Service. A port that is named in the pods is found there.
func answering(all []*v1.Pod, port *v1.ServicePort) *endpoints {
	out := &endpoints{}
	for _, p := range all {
		number := port.TargetPort.IntVal
		if name := port.TargetPort.StrVal; name != "" {
			number = named(p, name)
		} else if number == 0 {
			number = port.Port
		}
		if p.DeletionTimestamp != nil || p.Status.PodIP == "" || number == 0 || !isReady(p) {
			continue
		}
		out.addresses = append(out.addresses, net.JoinHostPort(p.Status.PodIP, strconv.Itoa(int(number))))
		out.pods = append(out.pods, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
	return out.sorted()
}

// named returns the number of a port that a container of a pod names, or 0.
func named(p *v1.Pod, name string) int32 {
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if port.Name == name {
				return port.ContainerPort
			}
		}
	}
	return 0
}

func isReady(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
}
