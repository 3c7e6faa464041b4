package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/activator"
	"berth.dev/berth/api"
	"berth.dev/berth/fleet"
	"berth.dev/berth/fleet/balancer"
	"berth.dev/berth/fleet/kubelet"
	"berth.dev/berth/fleet/system"
)

// kubeletPort is where every kubelet serves its API.
const kubeletPort = 10250

var errRefused = errors.New("connection refused")

// clusterNetwork is the network as the API server sees it: simulated nodes and
// pods, Services in front of them, and the addresses of real nodes.
type clusterNetwork struct {
	kubeletTLS, metricsTLS *tls.Config
	parts                  atomic.Pointer[networkParts] // nil until the fleet is made
}

type networkParts struct {
	client    kubernetes.Interface
	fleet     *fleet.Fleet
	kubelet   *kubelet.Server
	activator *activator.Set
}

// newNetwork prepares the certificates the network serves with.
func newNetwork(c *certs) (*clusterNetwork, error) {
	kubeletCert, err := c.kubelet.tls()
	if err != nil {
		return nil, err
	}
	metricsCert, err := c.metrics.tls()
	if err != nil {
		return nil, err
	}
	return &clusterNetwork{
		kubeletTLS: &tls.Config{
			Certificates: []tls.Certificate{kubeletCert}, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: c.ca.pool(), NextProtos: []string{"http/1.1"},
		},
		// Only the aggregator may ask: it proves itself with the front proxy's certificate.
		metricsTLS: &tls.Config{
			Certificates: []tls.Certificate{metricsCert}, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: c.proxyCA.pool(), NextProtos: []string{"http/1.1"},
		},
	}, nil
}

// Route implements network. Requests that it leads to pods of InferenceServices are counted.
func (n *clusterNetwork) Route(ctx context.Context, address string) (func(net.Conn), bool, error) {
	return n.route(ctx, address, true)
}

// route is Route; the activator, which has counted its requests, asks for others not to be.
func (n *clusterNetwork) route(ctx context.Context, address string, count bool) (func(net.Conn), bool, error) {
	p := n.parts.Load()
	if p == nil {
		return nil, false, errors.New("the simulated network is still starting")
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, false, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, false, fmt.Errorf("port of %s: %w", address, err)
	}
	if n.isNode(p, host) {
		if port != kubeletPort {
			return nil, false, fmt.Errorf("%s: %w", address, errRefused)
		}
		return over(n.kubeletTLS, p.kubelet.Handler()), false, nil
	}
	if node, namespace, name, ok := p.fleet.PodByIP(host); ok {
		if to, ok := p.kubelet.HostAddr(node, namespace, name, port); ok {
			if h := p.counted(count, namespace, name, hostHandler(to)); h != nil {
				return over(nil, h), false, nil
			}
			return dialHost(ctx, address, to)
		}
		h := p.kubelet.PodHandler(node, namespace, name, port)
		if h == nil {
			return nil, false, fmt.Errorf("%s: %w", address, errRefused)
		}
		if counted := p.counted(count, namespace, name, h); counted != nil {
			h = counted
		}
		return over(nil, h), false, nil
	}
	return n.routeOther(ctx, p, host, port)
}

// dialHost connects to the process of this machine that backs a container.
func dialHost(ctx context.Context, address, to string) (func(net.Conn), bool, error) {
	out, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w: the host process behind it: %w", address, errRefused, err)
	}
	return func(c net.Conn) { balancer.Join(c, out) }, false, nil
}

// isNode reports whether host is a simulated node.
func (n *clusterNetwork) isNode(p *networkParts, host string) bool {
	if strings.HasSuffix(host, ".sim.internal") {
		return true
	}
	_, ok := p.fleet.NodeByIP(host)
	return ok
}

// routeOther finds Services and real nodes.
func (n *clusterNetwork) routeOther(ctx context.Context, p *networkParts, host string, port int) (func(net.Conn), bool, error) {
	ip, err := netip.ParseAddr(host)
	switch {
	case host == activatorIP:
		if h := p.activator.Handler(port); h != nil {
			return p.held(h), false, nil
		}
		return nil, false, fmt.Errorf("%s:%d: %w", host, port, errRefused)
	case host == "localhost" || err == nil && ip.IsLoopback():
		return nil, true, nil // a webhook that its author runs on this machine
	case err == nil && netip.MustParsePrefix(serviceRange).Contains(ip):
		return n.routeService(ctx, p, host, port)
	case p.fleet.Simulated(host):
		return nil, false, fmt.Errorf("%s: no simulated pod or node has this address", host)
	}
	ok, err := isReal(ctx, p.client, host)
	if err != nil {
		return nil, false, fmt.Errorf("find the node of %s: %w", host, err)
	}
	if !ok {
		return nil, false, fmt.Errorf("%s does not belong to a node: the simulated network sends nothing out", host)
	}
	return nil, true, nil
}

// routeService serves the metrics API, or goes on to a ready endpoint.
func (n *clusterNetwork) routeService(ctx context.Context, p *networkParts, ip string, port int) (func(net.Conn), bool, error) {
	all, err := p.client.CoreV1().Services("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, false, fmt.Errorf("find the Service at %s: %w", ip, err)
	}
	for _, s := range all.Items {
		if s.Spec.ClusterIP != ip {
			continue
		}
		if s.Namespace == system.MetricsNamespace && s.Name == system.MetricsService {
			return over(n.metricsTLS, p.kubelet.MetricsAPI()), false, nil
		}
		if h := p.activator.ForService(s.Namespace, s.Name, portName(&s, int32(port))); h != nil {
			return p.held(h), false, nil
		}
		to, err := endpoint(ctx, p.client, &s, int32(port))
		if err != nil {
			return nil, false, err
		}
		return n.Route(ctx, to)
	}
	return nil, false, fmt.Errorf("no Service has the address %s", ip)
}

// portName returns the name of a port of a Service; "" is none.
func portName(s *corev1.Service, port int32) string {
	for _, p := range s.Spec.Ports {
		if p.Port == port {
			return p.Name
		}
	}
	return ""
}

// endpoint is the address of a ready endpoint behind a port of a Service.
func endpoint(ctx context.Context, client kubernetes.Interface, s *corev1.Service, port int32) (string, error) {
	all, err := client.DiscoveryV1().EndpointSlices(s.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + s.Name, ResourceVersion: "0"})
	if err != nil {
		return "", fmt.Errorf("endpoints of Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	name := portName(s, port)
	if !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port }) {
		return "", fmt.Errorf("Service %s/%s has no port %d", s.Namespace, s.Name, port)
	}
	for _, slice := range all.Items {
		for _, p := range slice.Ports {
			if p.Port == nil || p.Name != nil && *p.Name != name {
				continue
			}
			for _, e := range slice.Endpoints {
				if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					return net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))), nil
				}
			}
		}
	}
	return "", fmt.Errorf("Service %s/%s has no ready endpoint for port %d", s.Namespace, s.Name, port)
}

// isReal reports whether host is an address of a node that is not simulated, or of
// a pod on one.
func isReal(ctx context.Context, client kubernetes.Interface, host string) (bool, error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: api.LabelSimulated + "!=true", ResourceVersion: "0"})
	if err != nil {
		return false, err
	}
	actual := map[string]bool{}
	for _, node := range nodes.Items {
		actual[node.Name] = true
		for _, a := range node.Status.Addresses {
			if a.Address == host {
				return true, nil
			}
		}
	}
	if len(actual) == 0 {
		return false, nil
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("status.podIP", host).String()})
	if err != nil {
		return false, err
	}
	for _, pod := range pods.Items {
		if actual[pod.Spec.NodeName] {
			return true, nil
		}
	}
	return false, nil
}

// over serves h on a connection, behind TLS when cfg is not nil.
func over(cfg *tls.Config, h http.Handler) func(net.Conn) {
	return func(c net.Conn) { serveHTTP(c, cfg, h) }
}
