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
	return n.dialBy(ctx, address, true)
}

// dialBy is dial; count is that of route.
func (n *clusterNetwork) dialBy(ctx context.Context, address string, count bool) (net.Conn, error) {
	serve, dial, err := n.route(ctx, address, count)
	if err != nil {
		return nil, err
	}
	if dial {
		return nil, fmt.Errorf("%s is on a real node: only simulated pods are reached from here", address)
	}
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		serve(there)
	}()
	return here, nil
}
