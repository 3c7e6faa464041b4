package controlplane

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"

	"berth.dev/berth/activator"
	"berth.dev/berth/controller/runtime"
)

// activatorIP is the address of the activator on the simulated network, after those of
// nodes, pods, and Services.
const activatorIP = "10.97.0.1"

// activatorPatience is how long requests that are held or under way have at the end.
const activatorPatience = 2 * time.Second

// newActivator makes what holds the requests of InferenceServices without ready pods.
// It opens no port: the simulated network leads to it.
func (p *plane) newActivator(network *clusterNetwork) (*activator.Set, error) {
	client, err := kubernetes.NewForConfig(unlimited(p.fleetConfig()))
	if err != nil {
		return nil, err
	}
	return activator.New(activator.Options{
		Client: client, Address: activatorIP, Log: p.log,
		Dial:   func(ctx context.Context, _, address string) (net.Conn, error) { return network.reach(ctx, address) },
		Counts: network.counts,
	}), nil
}

// counts reports whether requests that reach a pod at an address without the activator are counted: those on real nodes are not.
func (n *clusterNetwork) counts(address string) bool {
	host, _, err := net.SplitHostPort(address)
	p := n.parts.Load()
	return err != nil || p == nil || p.fleet.Simulated(host)
}

// reach connects the activator to a pod, on a real node too. Its requests are not counted again.
func (n *clusterNetwork) reach(ctx context.Context, address string) (net.Conn, error) {
	serve, actual, err := n.route(ctx, address, false)
	if err != nil {
		return nil, err
	}
	if actual {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	return within(serve), nil
}

// holds reports whether this process holds the requests of services: not where others run them. Its activator then knows
// no service.
func (p *plane) holds() bool { return p.state.Serving != string(runtime.Off) }

// runActivator follows the cluster until ctx ends, and then lets requests end.
func runActivator(ctx context.Context, set *activator.Set) error {
	metrics := legacyregistry.Registerer()
	if metrics.Register(set) == nil { // else those of another control plane of this process are there
		defer metrics.Unregister(set)
	}
	err := set.Run(ctx, nil)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), activatorPatience)
	defer cancel()
	if drained := set.Drain(last); !errors.Is(drained, context.Canceled) {
		err = errors.Join(err, drained)
	}
	return err
}

// counted counts what a pod's handler answers, if count and it is a pod of an
// InferenceService; otherwise it returns nil.
func (p *networkParts) counted(count bool, namespace, pod string, h http.Handler) http.Handler {
	if !count || !p.activator.Knows(namespace, pod) {
		return nil
	}
	return p.activator.Counted(namespace, pod, h)
}

// hostHandler leads to an address of this machine.
func hostHandler(address string) http.Handler {
	return httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
}

// held serves a connection by a handler of the activator until it is closed.
func (p *networkParts) held(h http.Handler) func(net.Conn) {
	return func(c net.Conn) {
		n := &noted{Conn: c, closed: make(chan struct{})}
		p.activator.ServeConn(n, h)
		<-n.closed
	}
}

// noted is a connection of which one can wait for the end.
type noted struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

// Close closes the connection.
func (n *noted) Close() error {
	n.once.Do(func() { close(n.closed) })
	return n.Conn.Close()
}
