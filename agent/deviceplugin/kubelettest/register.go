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

// registration is what plugins call.
type registration struct {
	v1beta1.UnimplementedRegistrationServer
	k *Kubelet
}

// client is one registered plugin's connection.
type client struct {
	resource string
	life     int // of the kubelet
	conn     *grpc.ClientConn
	api      v1beta1.DevicePluginClient
	cancel   context.CancelFunc // ends its stream
}

func (r *registration) Register(ctx context.Context, q *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	err := r.k.register(ctx, q)
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	r.k.log = append(r.k.log, Registration{Resource: q.ResourceName, Endpoint: q.Endpoint, Options: q.Options, At: time.Now(), Err: err})
	r.k.broadcast()
	return &v1beta1.Empty{}, err
}

func (k *Kubelet) register(ctx context.Context, q *v1beta1.RegisterRequest) error {
	if !slices.Contains(v1beta1.SupportedVersions[:], q.Version) {
		return fmt.Errorf("requested API version %q is not supported by kubelet; supported are %q", q.Version, v1beta1.SupportedVersions)
	}
	if domain, _, ok := strings.Cut(q.ResourceName, "/"); !ok || strings.HasSuffix(domain, "kubernetes.io") {
		return fmt.Errorf("the ResourceName %q is invalid", q.ResourceName)
	}
	stream, cancel := context.WithCancel(context.Background())
	c := &client{resource: q.ResourceName, cancel: cancel}
	path := filepath.Join(k.dir, q.Endpoint)
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return err
	}
	c.conn, c.api = conn, v1beta1.NewDevicePluginClient(conn)
	k.mu.Lock()
	c.life = k.life
	k.clients[c.resource] = c // before it is known to answer, as in the kubelet
	k.mu.Unlock()

	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	options, err := c.api.GetDevicePluginOptions(ctx, &v1beta1.Empty{}, grpc.WaitForReady(true))
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && !k.lives(c.life) {
		err = errEnded
	}
	if err != nil {
		if c.life == k.life {
			delete(k.clients, c.resource)
		}
		c.cancel()
		_ = conn.Close() // it may have ended
		return fmt.Errorf("get device plugin options: %w", err)
	}
	k.ends[c.resource] = &endpoint{api: c.api, conn: conn, options: options}
	k.open[c] = struct{}{}
	k.serving.Go(func() { k.follow(stream, c) })
	k.serving.Go(func() { k.watch(stream, conn) })
	return nil
}

// watch tells who awaits a change of what the connection's state is: gRPC sets
// it beside the calls that pass through the connection, now before and now
// after them, and Serving reads it.
func (k *Kubelet) watch(ctx context.Context, conn *grpc.ClientConn) {
	for {
		s := conn.GetState()
		k.mu.Lock()
		k.broadcast()
		k.mu.Unlock()
		if s == connectivity.Shutdown || !conn.WaitForStateChange(ctx, s) {
			return
		}
	}
}

// follow takes device lists until the stream ends. What it drops then is the
// plugin that has the resource by now, which may be another.
func (k *Kubelet) follow(ctx context.Context, c *client) {
	if stream, err := c.api.ListAndWatch(ctx, &v1beta1.Empty{}); err == nil {
		for {
			list, err := stream.Recv()
			if err != nil {
				break
			}
			k.receive(c, list.Devices)
		}
	}
	k.mu.Lock()
	delete(k.open, c)
	if !k.lives(c.life) {
		k.mu.Unlock()
		return // this kubelet has ended
	}
	last := k.clients[c.resource]
	delete(k.clients, c.resource)
	k.mu.Unlock()
	if last == nil {
		return
	}
	_ = last.conn.Close() // it may have ended
	k.disconnected(c.resource, c.life)
}

// lives says whether the kubelet of that start still runs. It needs k.mu.
func (k *Kubelet) lives(life int) bool { return k.grpc != nil && k.life == life }

// receive takes a device list.
func (k *Kubelet) receive(c *client, devices []*v1beta1.Device) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.lives(c.life) {
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

// disconnected counts all devices as unhealthy and stops the endpoint.
func (k *Kubelet) disconnected(resource string, life int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.ends[resource]
	if e == nil || !k.lives(life) {
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
	c := k.clients[resource]
	delete(k.clients, resource)
	k.mu.Unlock()
	if c != nil {
		_ = c.conn.Close() // it may have ended
		k.disconnected(resource, c.life)
	}
}

// Lose stops the endpoint of a resource and goes on reading its devices. That
// is what a kubelet does when a plugin registers between the two steps in which
// it drops an older one.
func (k *Kubelet) Lose(resource string) {
	k.mu.Lock()
	life := k.life
	k.mu.Unlock()
	k.disconnected(resource, life)
}
