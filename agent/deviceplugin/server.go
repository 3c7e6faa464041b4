package deviceplugin

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// server is one gRPC server of a resource, from its start to its stop. When
// its socket is deleted it gets another at the same place, and the kubelet's
// connection, which has outlived the file, goes on.
type server struct {
	v1beta1.UnimplementedDevicePluginServer

	p    *plugin
	grpc *grpc.Server
	sock *socket // the last one; used by the plugin's goroutine only
	done chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	streams int       // ListAndWatch calls under way
	ever    int       // all that have begun
	opened  time.Time // when the last one began
	stopped bool
}

// maxMessage bounds what a kubelet may send: all available IDs of a resource,
// in GetPreferredAllocation. What we send is bounded by the kubelet's 4 MiB,
// some 60,000 devices.
const maxMessage = 16 << 20

func (p *plugin) newServer() *server {
	s := &server{p: p, done: make(chan struct{})}
	s.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	v1beta1.RegisterDevicePluginServer(s.grpc, s)
	return s
}

// listen makes the socket, or makes it again if it is no longer there.
func (s *server) listen(path string) error {
	if s.intact() {
		return nil
	}
	sock, err := listen(path)
	if err != nil {
		return err
	}
	s.sock = sock
	s.wg.Go(func() { _ = s.grpc.Serve(sock) }) // ends when the server is stopped
	return nil
}

// intact reports whether the kubelet finds the server at its socket.
func (s *server) intact() bool { return s.sock != nil && s.sock.intact() }

// stop ends the server and removes its socket. With a drain, calls under way
// have that long to end, and streams send what they have not yet sent.
func (s *server) stop(drain time.Duration) {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	if s.sock != nil {
		s.sock.remove()
	}
	close(s.done)
	if drain > 0 {
		hurry := time.AfterFunc(drain, s.grpc.Stop)
		s.grpc.GracefulStop()
		hurry.Stop()
	}
	s.grpc.Stop()
	s.wg.Wait()
}

// live says how many streams the kubelet reads.
func (s *server) live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}

// begun says how many streams the kubelet has begun to read.
func (s *server) begun() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ever
}

// GetDevicePluginOptions says which calls the kubelet has to make.
func (s *server) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return callOptions(), nil
}

func callOptions() *v1beta1.DevicePluginOptions {
	return &v1beta1.DevicePluginOptions{PreStartRequired: true, GetPreferredAllocationAvailable: true}
}

// ListAndWatch sends the list and then every other list, until either side
// goes. A list that is the same is not sent again.
func (s *server) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	if !s.enter() {
		return status.Error(codes.Unavailable, "berth: the plugin of "+s.p.resource+" stops")
	}
	defer s.leave()
	devices, changed, _ := s.p.list.get()
	for last := []Device(nil); ; devices, changed, _ = s.p.list.get() {
		if last == nil || !slices.Equal(devices, last) {
			if err := stream.Send(response(devices)); err != nil {
				return err
			}
			last = append([]Device{}, devices...)
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.done:
			if devices, _, muted := s.p.list.get(); !muted && !slices.Equal(devices, last) {
				return stream.Send(response(devices))
			}
			return nil
		}
	}
}

func (s *server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.ever++
	if s.streams++; s.streams == 1 {
		s.p.opts.Counters.Serving.Add(1)
	}
	s.opened = time.Now()
	s.p.notify(streamOpened)
	return true
}

func (s *server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams--; s.streams == 0 {
		s.p.opts.Counters.Serving.Add(-1)
	}
	if !s.stopped {
		s.p.notify(streamEnded)
	}
}

// GetPreferredAllocation returns the node's choice. It is a hint, so an error
// in it must not cost a pod its start: the kubelet then chooses by itself.
func (s *server) GetPreferredAllocation(ctx context.Context, r *v1beta1.PreferredAllocationRequest) (*v1beta1.PreferredAllocationResponse, error) {
	out := &v1beta1.PreferredAllocationResponse{}
	for _, c := range r.ContainerRequests {
		ids, err := guarded(s.p, ctx, "GetPreferredAllocation", func(context.Context) ([]string, error) {
			return s.p.node.Prefer(s.p.resource, c.AvailableDeviceIDs, c.MustIncludeDeviceIDs, int(c.AllocationSize))
		})
		if err != nil && ctx.Err() == nil {
			s.p.opts.Log.Warn("no preference among devices; the kubelet chooses", "resource", s.p.resource, "err", err)
		}
		out.ContainerResponses = append(out.ContainerResponses, &v1beta1.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return out, nil
}

// Allocate passes the kubelet's choice on to the node.
func (s *server) Allocate(ctx context.Context, r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	c := s.p.opts.Counters
	defer took(&c.Allocates, &c.AllocateNanos, time.Now())
	containers := make([][]string, len(r.ContainerRequests))
	for i, one := range r.ContainerRequests {
		containers[i] = one.DevicesIds
	}
	answer, err := guarded(s.p, ctx, "Allocate", func(ctx context.Context) (*v1beta1.AllocateResponse, error) {
		return s.p.node.Allocate(ctx, s.p.resource, containers)
	})
	if err == nil && len(answer.GetContainerResponses()) != len(containers) {
		err = fmt.Errorf("the node agent has a bug: it answered for %d of %d containers that ask for %s",
			len(answer.GetContainerResponses()), len(containers), s.p.resource)
	}
	if err != nil {
		c.AllocateFailures.Add(1)
		return nil, refusal(err)
	}
	return answer, nil
}

// PreStartContainer asks the node whether a container may start.
func (s *server) PreStartContainer(ctx context.Context, r *v1beta1.PreStartContainerRequest) (*v1beta1.PreStartContainerResponse, error) {
	c := s.p.opts.Counters
	defer took(&c.PreStarts, &c.PreStartNanos, time.Now())
	err := s.p.guard(ctx, "PreStartContainer", func(ctx context.Context) error {
		return s.p.node.PreStart(ctx, s.p.resource, r.DevicesIds)
	})
	if err != nil {
		c.PreStartFailures.Add(1)
		return nil, refusal(err)
	}
	return &v1beta1.PreStartContainerResponse{}, nil
}

// guarded is guard for a call with a result.
func guarded[T any](p *plugin, ctx context.Context, what string, call func(context.Context) (T, error)) (T, error) {
	got := make(chan T, 1) // not a variable: the call may end after guard has
	err := p.guard(ctx, what, func(ctx context.Context) error {
		v, err := call(ctx)
		got <- v
		return err
	})
	var v T
	if err == nil {
		v = <-got
	}
	return v, err
}

// took counts one call and its time.
func took(calls, nanos *atomic.Int64, begin time.Time) {
	calls.Add(1)
	nanos.Add(int64(time.Since(begin)))
}
