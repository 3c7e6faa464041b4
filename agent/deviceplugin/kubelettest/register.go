package kubelettest

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// registration is what plugins call, of one life of the kubelet.
type registration struct {
	v1beta1.UnimplementedRegistrationServer
	k    *Kubelet
	life int
}

// client is one registered plugin's connection.
type client struct {
	resource string
	life     int // of the kubelet
	conn     *grpc.ClientConn
	api      v1beta1.DevicePluginClient
	stream   context.Context //nolint:containedctx // of its stream, which outlives the registration
	cancel   context.CancelFunc
	dropped  bool // by the kubelet, under its mu: the end of its stream says nothing new
}

func (r *registration) Register(ctx context.Context, q *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	k := r.k
	c, options, err := k.ask(ctx, r.life, q)
	k.mu.Lock()
	defer k.mu.Unlock()
	lives := k.lives(r.life) // else this kubelet is no more, and changes nothing
	switch {
	case !lives:
		err = errEnded
	case err == nil && c.dropped:
		err = fmt.Errorf("the plugin of %s was dropped while it registered", q.ResourceName)
	}
	if err != nil && c != nil {
		if k.clients[c.resource] == c {
			delete(k.clients, c.resource)
		}
		c.cancel()
		_ = c.conn.Close() // it may have ended
	}
	if lives { // noted before its devices are: who has seen these finds it
		k.log = append(k.log, Registration{Resource: q.ResourceName, Endpoint: q.Endpoint, Options: q.Options, At: time.Now(), Err: err})
	}
	if err == nil {
		k.ends[c.resource] = &endpoint{api: c.api, conn: c.conn, options: options}
		k.open[c] = struct{}{}
		k.serving.Go(func() { k.follow(c) })
		k.serving.Go(func() { k.watch(c) })
	}
	k.broadcast()
	return &v1beta1.Empty{}, err
}

// ask connects to a plugin and asks for its options. The client is there also
// after an error, unless no plugin was asked.
func (k *Kubelet) ask(ctx context.Context, life int, q *v1beta1.RegisterRequest) (*client, *v1beta1.DevicePluginOptions, error) {
	if !slices.Contains(v1beta1.SupportedVersions[:], q.Version) {
		return nil, nil, fmt.Errorf("requested API version %q is not supported by kubelet; supported are %q", q.Version, v1beta1.SupportedVersions)
	}
	if domain, _, ok := strings.Cut(q.ResourceName, "/"); !ok || strings.HasSuffix(domain, "kubernetes.io") {
		return nil, nil, fmt.Errorf("the ResourceName %q is invalid", q.ResourceName)
	}
	path := filepath.Join(k.dir, q.Endpoint)
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return nil, nil, err
	}
	c := &client{resource: q.ResourceName, life: life, conn: conn, api: v1beta1.NewDevicePluginClient(conn)}
	c.stream, c.cancel = context.WithCancel(context.Background())
	k.mu.Lock()
	if k.lives(life) {
		k.clients[c.resource] = c // before it is known to answer, as in the kubelet
	}
	k.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	options, err := c.api.GetDevicePluginOptions(ctx, &v1beta1.Empty{}, grpc.WaitForReady(true))
	if err != nil {
		return c, nil, fmt.Errorf("get device plugin options: %w", err)
	}
	return c, options, nil
}

// watch tells who awaits a change of what the connection's state is: gRPC sets
// it beside the calls that pass through the connection, now before and now
// after them, and Serving reads it. It ends when the connection is closed.
func (k *Kubelet) watch(c *client) {
	for {
		s := c.conn.GetState()
		k.mu.Lock()
		k.broadcast()
		k.mu.Unlock()
		if s == connectivity.Shutdown || !c.conn.WaitForStateChange(c.stream, s) {
			return
		}
	}
}

// follow takes device lists until the stream ends. What it drops then is the
// plugin that has the resource by now, which may be another.
func (k *Kubelet) follow(c *client) {
	if stream, err := c.api.ListAndWatch(c.stream, &v1beta1.Empty{}); err == nil {
		for {
			list, err := stream.Recv()
			if err != nil {
				break
			}
			k.receive(c, list.Devices)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.open, c)
	c.cancel()
	_ = c.conn.Close() // it may have ended
	if last := k.clients[c.resource]; last != nil && !c.dropped && k.lives(c.life) {
		k.drop(last)
	}
	k.broadcast()
}

// lives reports whether the kubelet of that start still runs. It needs k.mu.
func (k *Kubelet) lives(life int) bool { return k.grpc != nil && k.life == life }

// receive takes a device list.
func (k *Kubelet) receive(c *client, devices []*v1beta1.Device) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.lives(c.life) || c.dropped {
		return
	}
	resource := c.resource
	k.all[resource], k.healthy[resource], k.sick[resource] = make(map[string]*v1beta1.Device), make(set), make(set)
	for _, d := range devices {
		k.all[resource][d.ID] = d
		if d.Health == v1beta1.Healthy {
			k.healthy[resource][d.ID] = true
		} else {
			k.sick[resource][d.ID] = true
		}
	}
	k.writeCheckpoint()
	k.broadcast()
}

// drop closes the connection to a plugin, counts all devices of its resource as
// unhealthy and stops the endpoint. No registration comes between these; what a
// kubelet makes of one that does, Lose does. It needs k.mu.
func (k *Kubelet) drop(c *client) {
	delete(k.clients, c.resource)
	c.dropped = true
	_ = c.conn.Close() // it may have ended
	k.lose(c.resource)
}

// lose counts all devices as unhealthy and stops the endpoint. It needs k.mu.
func (k *Kubelet) lose(resource string) {
	e := k.ends[resource]
	if e == nil {
		return
	}
	if k.sick[resource] == nil {
		k.sick[resource] = make(set)
	}
	for id := range k.healthy[resource] {
		k.sick[resource][id] = true
	}
	k.healthy[resource] = make(set)
	e.stop(k.Now())
	k.broadcast()
}

// Drop closes the connection to the plugin that has the resource, and leaves
// kubelet.sock as it is.
func (k *Kubelet) Drop(resource string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.clients[resource]; c != nil && k.lives(c.life) {
		k.drop(c)
	}
}

// Lose stops the endpoint of a resource and goes on reading its devices. That
// is what a kubelet does when a plugin registers between the two steps in which
// it drops an older one.
func (k *Kubelet) Lose(resource string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lose(resource)
}
