package deviceplugin

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// busy is a kubelet that accepts registrations and reads no list yet.
type busy struct {
	v1beta1.UnimplementedRegistrationServer
	registered int
}

func (b *busy) Register(context.Context, *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	b.registered++
	return &v1beta1.Empty{}, nil
}

// A plugin that has registered with the kubelet that came does not do so again when
// it hears, late, of streams of the kubelet before: this one would read its list
// twice.
func TestTheEndOfAnOldStreamThatIsHeardOfLateChangesNothing(t *testing.T) {
	dir, err := os.MkdirTemp("", "dp") //nolint:usetesting // t.TempDir has the test's name, which is too long
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	k, server := new(busy), grpc.NewServer()
	v1beta1.RegisterRegistrationServer(server, k)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	o := Options{Dir: dir}.withDefaults()
	o.times.confirm = time.Hour
	p := newPlugin("nvidia.com/gpu", o, idle{}, func(error) {})
	defer func() { p.stop(0) }()
	p.offered = true
	p.ensureAt = time.Now()
	p.step(t.Context())
	for _, e := range []event{streamEnded | kubeletCame, streamOpened | streamEnded, kubeletCame} {
		p.notify(e)
		p.step(t.Context())
		if k.registered != 1 || p.kubelet == nil || p.confirmAt.IsZero() {
			t.Errorf("after events %b: registered %d times, kubelet known %v, its stream awaited %v; want 1, true, true",
				e, k.registered, p.kubelet != nil, !p.confirmAt.IsZero())
		}
	}
}
