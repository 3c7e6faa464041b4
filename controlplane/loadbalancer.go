package controlplane

import (
	"context"
	"fmt"
	"net"

	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/fleet/balancer"
)

// serveBalancers assigns Services of type LoadBalancer addresses of this machine's
// loopback network, until ctx ends.
func (p *plane) serveBalancers(ctx context.Context, network *clusterNetwork) error {
	client, err := kubernetes.NewForConfig(unlimited(p.fleetConfig()))
	if err != nil {
		return err
	}
	return balancer.New(client, network.dial, p.log).Run(ctx)
}

// dial connects to an address of the simulated network.
func (n *clusterNetwork) dial(ctx context.Context, address string) (net.Conn, error) {
	serve, actual, err := n.route(ctx, address, true)
	if err != nil {
		return nil, err
	}
	if actual {
		return nil, fmt.Errorf("%s is on a real node: only simulated pods are reached from here", address)
	}
	return within(serve), nil
}

// within is a connection to what serves in this process.
func within(serve func(net.Conn)) net.Conn {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		serve(there)
	}()
	return here
}
