package kubelettest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Plugin is another vendor's plugin, which does what NVIDIA's does: it removes
// whatever is at its socket, sends its devices, and does not notice when the
// kubelet goes. Its methods are for one goroutine.
type Plugin struct {
	Dir, Socket, Resource string
	IDs                   []string // all healthy

	server  *pluginServer
	serving sync.WaitGroup
}

// pluginServer is what a Plugin serves between Start and Kill.
type pluginServer struct {
	v1beta1.UnimplementedDevicePluginServer
	grpc    *grpc.Server
	name    string
	devices []*v1beta1.Device
	stop    chan struct{}
	send    chan []*v1beta1.Device // to one stream, as with NVIDIA's
}

// Start serves and registers. After an error it does neither.
func (p *Plugin) Start(ctx context.Context) error {
	path := filepath.Join(p.Dir, p.Socket)
	_ = os.Remove(path) // ours or not
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	s := &pluginServer{grpc: grpc.NewServer(), name: p.Socket, devices: wellDevices(p.IDs), stop: make(chan struct{}), send: make(chan []*v1beta1.Device)}
	p.server = s
	v1beta1.RegisterDevicePluginServer(s.grpc, s)
	p.serving.Go(func() { _ = s.grpc.Serve(l) })
	if err := p.register(ctx); err != nil {
		p.Stop()
		return err
	}
	return nil
}

func (p *Plugin) register(ctx context.Context) error {
	conn, err := grpc.NewClient("passthrough:///kubelet", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(p.Dir, "kubelet.sock"))
		}))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the answer has come
	_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: p.Socket, ResourceName: p.Resource, Options: &v1beta1.DevicePluginOptions{},
	})
	return err
}

// Kill ends the plugin and leaves its socket, as kill -9 does.
func (p *Plugin) Kill() {
	close(p.server.stop)
	p.server.grpc.Stop()
	p.serving.Wait()
}

// Stop ends the plugin and removes its socket.
func (p *Plugin) Stop() {
	p.Kill()
	_ = os.Remove(filepath.Join(p.Dir, p.Socket)) // ours or not
}

// Send sends other devices, all healthy, and returns when a stream has taken
// them.
func (p *Plugin) Send(ctx context.Context, ids []string) error {
	select {
	case p.server.send <- wellDevices(ids):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("send devices of %s: %w", p.Resource, ctx.Err())
	}
}

func wellDevices(ids []string) []*v1beta1.Device {
	var out []*v1beta1.Device
	for _, id := range ids {
		out = append(out, &v1beta1.Device{ID: id, Health: v1beta1.Healthy})
	}
	return out
}

// GetDevicePluginOptions asks for no further calls.
func (s *pluginServer) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices once, and others at each Send.
func (s *pluginServer) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	devices := s.devices
	for {
		if err := stream.Send(&v1beta1.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-s.stop:
			return nil
		case devices = <-s.send:
		}
	}
}

// Allocate says who was asked.
func (s *pluginServer) Allocate(_ context.Context, r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	out := &v1beta1.AllocateResponse{}
	for range r.ContainerRequests {
		out.ContainerResponses = append(out.ContainerResponses, &v1beta1.ContainerAllocateResponse{Envs: map[string]string{"PLUGIN": s.name}})
	}
	return out, nil
}
