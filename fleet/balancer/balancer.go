// Package balancer assigns Services of type LoadBalancer an address of this machine's
// loopback network, and forwards what connects to it to a ready pod behind the
// Service: what a cloud's load balancer does for its clusters. A port below 1024 takes
// root to listen on; the Service's node port serves the same on the same address.
package balancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Class is the loadBalancerClass of Services that only this package serves. Those
// without a class it serves as well.
const Class = "berth.dev/loopback"

// Dial connects to host:port inside the cluster.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// Balancer serves the Services of one cluster. Its zero value is of no use: see New.
type Balancer struct {
	client kubernetes.Interface
	dial   Dial
	log    *slog.Logger

	mu     sync.Mutex
	served map[types.NamespacedName]*served
	conns  sync.WaitGroup
}

// served is one Service that has an address.
type served struct {
	ip        string
	listeners map[string]net.Listener // by address; nil is one that could not be opened
	problems  map[int32]string        // by port of the Service: why it is not listened on
}

// New makes a Balancer that serves nothing until Sync. It needs the right to patch the
// status of Services.
func New(client kubernetes.Interface, dial Dial, log *slog.Logger) *Balancer {
	return &Balancer{client: client, dial: dial, log: log, served: map[types.NamespacedName]*served{}}
}

// Close stops listening, and waits for connections that are forwarded to end.
func (b *Balancer) Close() {
	b.mu.Lock()
	for _, s := range b.served {
		s.close(nil)
	}
	b.served = map[types.NamespacedName]*served{}
	b.mu.Unlock()
	b.conns.Wait()
}

// wants reports whether a Service is to have an address from here.
func wants(s *v1.Service) bool {
	return s.Spec.Type == v1.ServiceTypeLoadBalancer && s.DeletionTimestamp == nil &&
		(s.Spec.LoadBalancerClass == nil || *s.Spec.LoadBalancerClass == Class)
}

// Remove stops serving a Service that is gone.
func (b *Balancer) Remove(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.served[key]; s != nil {
		s.close(nil)
		delete(b.served, key)
	}
}

// Sync serves a Service as it is now, and writes its address into its status. A
// Service keeps the address that its status has, over restarts too, unless another
// process has its ports there.
func (b *Balancer) Sync(ctx context.Context, s *v1.Service) error {
	key := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	if !wants(s) {
		b.Remove(key)
		if len(s.Status.LoadBalancer.Ingress) > 0 && s.Spec.Type != v1.ServiceTypeLoadBalancer {
			return b.write(ctx, s, nil)
		}
		return nil
	}
	ingress, err := b.serve(ctx, key, s)
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(s.Status.LoadBalancer.Ingress, ingress) {
		return nil
	}
	return b.write(ctx, s, ingress)
}

// serve opens the listeners of a Service that are missing, closes those too many, and
// returns what its status should say.
func (b *Balancer) serve(ctx context.Context, key types.NamespacedName, s *v1.Service) ([]v1.LoadBalancerIngress, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.served[key]
	if now == nil {
		now = &served{ip: b.address(ctx, s), listeners: map[string]net.Listener{}}
		if now.ip == "" {
			return nil, fmt.Errorf("serve Service %s: all %d addresses are in use; delete Services of type LoadBalancer", key, maxAddresses-1)
		}
		b.served[key] = now
	}
	now.problems = map[int32]string{}
	open := map[string]bool{}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.Protocol != "" && p.Protocol != v1.ProtocolTCP {
			now.problems[p.Port] = "berth.dev/OnlyTCP"
			continue
		}
		to := net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(p.Port)))
		for _, port := range []int32{p.Port, p.NodePort} {
			if port == 0 {
				continue
			}
			at := net.JoinHostPort(now.ip, strconv.Itoa(int(port)))
			open[at+">"+to] = true
			if err := b.listen(ctx, now, at, to); err != nil && port == p.Port {
				now.problems[p.Port] = problem(err)
				b.log.Info("a port of a Service is not served; its node port is", "service", key.String(), "address", at, "nodePort", p.NodePort, "err", err)
			}
		}
	}
	now.close(open)
	return now.ingress(s), nil
}

// listen opens at, if it is not open, and forwards its connections to to.
func (b *Balancer) listen(ctx context.Context, s *served, at, to string) error {
	key := at + ">" + to
	if s.listeners[key] != nil {
		return nil
	}
	for other, l := range s.listeners { // the address served another port
		if strings.HasPrefix(other, at+">") {
			l.Close()
			delete(s.listeners, other)
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", at)
	if err != nil {
		return err
	}
	s.listeners[key] = l
	b.conns.Go(func() { b.accept(ctx, l, to) })
	return nil
}

// problem is the error code of a port in a Service's status.
func problem(err error) string {
	switch {
	case errors.Is(err, syscall.EACCES):
		return "berth.dev/NeedsRoot"
	case errors.Is(err, syscall.EADDRINUSE):
		return "berth.dev/InUse"
	}
	return "berth.dev/NotServed"
}

// close closes the listeners that are not to stay open; nil closes all.
func (s *served) close(open map[string]bool) {
	for key, l := range s.listeners {
		if !open[key] {
			l.Close()
			delete(s.listeners, key)
		}
	}
}

// ingress is what the status of a Service says: its address, and which of its ports
// are not served.
func (s *served) ingress(of *v1.Service) []v1.LoadBalancerIngress {
	in := v1.LoadBalancerIngress{IP: s.ip, IPMode: new(v1.LoadBalancerIPModeProxy)}
	if len(s.problems) > 0 {
		for _, p := range of.Spec.Ports {
			status := v1.PortStatus{Port: p.Port, Protocol: p.Protocol}
			if code := s.problems[p.Port]; code != "" {
				status.Error = &code
			}
			in.Ports = append(in.Ports, status)
		}
	}
	return []v1.LoadBalancerIngress{in}
}

// write sets the addresses in the status of a Service, of the object with its UID.
func (b *Balancer) write(ctx context.Context, s *v1.Service, ingress []v1.LoadBalancerIngress) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": s.UID},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": slices.Clip(ingress)}},
	})
	if err != nil {
		return fmt.Errorf("write the address of Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	_, err = b.client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it has gone, or another has its name: its event comes
	}
	if err != nil {
		return fmt.Errorf("write the address of Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}
