package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubelet is the kubelet's side of the device plugin protocol, no more.
type kubelet struct {
	v1beta1.UnimplementedRegistrationServer
	dir    string
	server *grpc.Server

	mu      sync.Mutex
	plugins map[string]*plugin // by resource
	changed chan struct{}      // closed and replaced when plugins or their devices change
	all     int                // resources that were registered when it was last awaited
}

// plugin is one that has registered.
type plugin struct {
	conn    *grpc.ClientConn
	client  v1beta1.DevicePluginClient
	devices []string // healthy ones
}

func startKubelet(dir string) (*kubelet, error) {
	k := &kubelet{dir: dir}
	return k, k.listen()
}

func (k *kubelet) listen() error {
	if err := os.MkdirAll(k.dir, 0o750); err != nil {
		return err
	}
	k.mu.Lock()
	k.plugins, k.changed = map[string]*plugin{}, make(chan struct{})
	k.mu.Unlock()
	l, err := net.Listen("unix", filepath.Join(k.dir, "kubelet.sock"))
	if err != nil {
		return err
	}
	k.server = grpc.NewServer()
	v1beta1.RegisterRegistrationServer(k.server, k)
	go func() { _ = k.server.Serve(l) }()
	return nil
}

func (k *kubelet) stop() {
	k.server.Stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.plugins {
		_ = p.conn.Close()
	}
}

// Register takes a plugin and follows its devices.
func (k *kubelet) Register(_ context.Context, q *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	conn, err := grpc.NewClient("unix:"+filepath.Join(k.dir, q.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	p := &plugin{conn: conn, client: v1beta1.NewDevicePluginClient(conn)}
	k.mu.Lock()
	k.plugins[q.ResourceName] = p
	k.mu.Unlock()
	go k.follow(p)
	return &v1beta1.Empty{}, nil
}

func (k *kubelet) follow(p *plugin) {
	stream, err := p.client.ListAndWatch(context.Background(), &v1beta1.Empty{})
	for err == nil {
		var list *v1beta1.ListAndWatchResponse
		if list, err = stream.Recv(); err != nil {
			return
		}
		k.mu.Lock()
		p.devices = p.devices[:0]
		for _, d := range list.Devices {
			if d.Health == v1beta1.Healthy {
				p.devices = append(p.devices, d.ID)
			}
		}
		close(k.changed)
		k.changed = make(chan struct{})
		k.mu.Unlock()
	}
}

// await waits until a resource has so many healthy devices.
func (k *kubelet) await(ctx context.Context, resource string, count int) error {
	return k.until(ctx, func() (bool, string) {
		p := k.plugins[resource]
		if p == nil {
			return false, resource + " is not registered"
		}
		k.all = len(k.plugins)
		return len(p.devices) == count, fmt.Sprintf("%s has %d devices, not %d", resource, len(p.devices), count)
	})
}

// offered are the healthy devices of a resource that is registered.
func (k *kubelet) offered(resource string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.plugins[resource].devices)
}

// until waits until what is asked with mu held is so.
func (k *kubelet) until(ctx context.Context, so func() (bool, string)) error {
	limit := time.After(30 * time.Second)
	for {
		k.mu.Lock()
		ok, why := so()
		changed := k.changed
		k.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-limit:
			return fmt.Errorf("after 30 s %s", why)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// allocate asks for the i-th device, from the first again after the last.
func (k *kubelet) allocate(ctx context.Context, resource string, i int) (time.Duration, error) {
	k.mu.Lock()
	p := k.plugins[resource]
	id := p.devices[i%len(p.devices)]
	k.mu.Unlock()
	began := time.Now()
	_, err := p.client.Allocate(ctx, &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: []string{id}}}})
	return time.Since(began), err
}

// preStart asks whether a container that was given a device may start.
func (k *kubelet) preStart(ctx context.Context, resource, id string) error {
	k.mu.Lock()
	p := k.plugins[resource]
	k.mu.Unlock()
	_, err := p.client.PreStartContainer(ctx, &v1beta1.PreStartContainerRequest{DevicesIds: []string{id}})
	return err
}

// restart does what a kubelet does when it starts: it removes every socket of its
// folder and listens again. It returns how long its plugins took to come back.
func (k *kubelet) restart(ctx context.Context) (time.Duration, error) {
	k.stop()
	sockets, err := filepath.Glob(filepath.Join(k.dir, "*.sock"))
	if err != nil {
		return 0, err
	}
	for _, s := range sockets {
		if err := os.Remove(s); err != nil && !os.IsNotExist(err) {
			return 0, err
		}
	}
	want := k.all
	if err := k.listen(); err != nil {
		return 0, err
	}
	began := time.Now()
	err = k.until(ctx, func() (bool, string) {
		known := 0
		for _, p := range k.plugins {
			if p.devices != nil {
				known++
			}
		}
		return known == want, fmt.Sprintf("%d of %d resources are registered", known, want)
	})
	return time.Since(began), err
}
