package deviceplugin_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"berth.dev/berth/agent/deviceplugin"
)

// report returns the median and the 99th percentile of times as metrics.
func report(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	ms := func(p int) float64 { return float64(times[(len(times)-1)*p/100].Microseconds()) / 1000 }
	b.ReportMetric(ms(50), "p50-ms")
	b.ReportMetric(ms(99), "p99-ms")
	b.ReportMetric(ms(100), "max-ms")
}

// BenchmarkAllocate is one call of the kubelet's, from its side of the socket,
// with a node that answers at once: what this package adds. At most 5 ms at the
// 99th percentile are asked for, the node's own work included.
func BenchmarkAllocate(b *testing.B) {
	dir := folder(b)
	k := start(b, dir)
	serve(b, deviceplugin.Options{Dir: dir}, offering(gpus, "gpu", 8))
	await(b, k, gpus, 8, 8)
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "berth-nvidia-gpu.sock"))
		}))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	api := v1beta1.NewDevicePluginClient(conn)
	ask := &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: []string{"gpu-0", "gpu-1"}}}}
	var times []time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := api.Allocate(context.Background(), ask); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(begin))
	}
	report(b, times)
}

// BenchmarkKubeletRestart is the time from a kubelet that begins to listen to
// the registration of eight resources, the last of them. At most 100 ms are
// asked for.
func BenchmarkKubeletRestart(b *testing.B) {
	dir := folder(b)
	k := start(b, dir)
	offers := make(map[string][]deviceplugin.Device)
	for i := range 8 {
		offers[fmt.Sprintf("nvidia.com/mig-%d", i)] = devices(fmt.Sprintf("mig-%d", i), 7)
	}
	serve(b, deviceplugin.Options{Dir: dir}, newNode(offers))
	for r := range offers {
		await(b, k, r, 7, 7)
	}
	var times []time.Duration
	for b.Loop() {
		k.Kill()
		begin := time.Now()
		if err := k.Start(); err != nil {
			b.Fatal(err)
		}
		for r := range offers {
			await(b, k, r, 7, 7)
		}
		times = append(times, time.Since(begin))
	}
	report(b, times)
}
