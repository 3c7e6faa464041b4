package agent

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth.dev/berth/agent/allocation"
	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/deviceplugin/kubelettest"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// mig3g is half of an H100.
const mig3g = "nvidia.com/mig-3g.40gb"

// counter is a node's reconciler, its ledger, its device plugin and a kubelet.
type counter struct {
	*scene
	node    *allocation.Node
	kubelet *kubelettest.Kubelet
	ahead   atomic.Int64 // nanoseconds since the start: a clock that stands until the test moves it
}

// newCounter serves three GPUs in four shares each, the last of them cut into two
// MIG devices of two shares instead.
func newCounter(t *testing.T, mode bool) (*counter, []nvml.GPU) {
	t.Helper()
	dir, err := os.MkdirTemp("", "dp") //nolint:usetesting // t.TempDir has the test's name, which is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a socket may come while it goes
	p, ok := gpu.Find("NVIDIA H100 80GB HBM3")
	if !ok {
		t.Fatal("no such product")
	}
	list := gpu.New("n1", p, 3)
	if err := gpu.Cut(&list[2], p, []string{"3g.40gb", "3g.40gb"}); err != nil {
		t.Fatal(err)
	}
	var gpus []nvml.GPU
	for _, g := range list {
		gpus = append(gpus, nvml.GPU{GPU: g})
	}
	c := &counter{scene: newScene(newFakeDriver(gpus...)), kubelet: kubelettest.New(dir, 1)}
	if err := c.kubelet.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kubelet.Stop)
	c.node, err = allocation.New(t.Context(), allocation.Options{
		Kubelet: mode, CDIDir: filepath.Join(dir, "cdi"), DeviceDir: dir, DevRoot: dir, Pods: noPods{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.node.Close)
	c.reconciler.offers = c.node
	began := time.Now()
	c.reconciler.now = func() time.Time { return began.Add(time.Duration(c.ahead.Load())) }
	c.begin(t)
	t.Cleanup(func() { c.end(t) })
	for _, run := range []func(context.Context) error{c.node.Run, func(ctx context.Context) error {
		return deviceplugin.Run(ctx, deviceplugin.Options{Dir: dir}, c.node)
	}} {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	choice := chosen()
	choice.MIGStrategy, choice.Strategy = gpu.MIGMixed, gpu.SharingTimeSlicing
	choice.Replicas = map[string]int{gpu.ResourceGPU: 4, mig3g: 2}
	c.choices <- choice
	return c, gpus
}

// offered returns the healthy devices of the node's offer by resource, and the
// names of the others.
func (c *counter) offered() (well map[string]int, ill []string) {
	well = map[string]int{}
	offers := c.node.Offers()
	for _, name := range []string{gpu.ResourceGPU, mig3g} {
		for _, d := range offers[name] {
			if d.Healthy {
				well[name]++
			} else {
				ill = append(ill, d.ID)
			}
		}
	}
	return well, ill
}

// reaches waits until the kubelet counts the devices of both resources, of which
// so many are healthy.
func (c *counter) reaches(t *testing.T, whole, mig int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	state := func() string {
		n, a, _ := c.kubelet.Capacity(gpu.ResourceGPU)
		m, b, _ := c.kubelet.Capacity(mig3g)
		return fmt.Sprintf("%d of %d shares of GPUs, %d of %d of MIG devices", a, n, b, m)
	}
	want := fmt.Sprintf("%d of 8 shares of GPUs, %d of 4 of MIG devices", whole, mig)
	if err := c.kubelet.Await(ctx, func() bool { return state() == want }); err != nil {
		t.Fatalf("the kubelet counts %s, want %s: %v", state(), want, err)
	}
}

// TestAnXidIsOfEveryShareAndSibling follows an Xid from the driver to the device
// list that the kubelet has, and the way back. Of a GPU in shares, or cut by MIG,
// only one device turned unhealthy, and none came back.
//
// NVIDIA/k8s-device-plugin#1929 NVIDIA/k8s-device-plugin#1930 NVIDIA/k8s-device-plugin#1014
func TestAnXidIsOfEveryShareAndSibling(t *testing.T) {
	for _, mode := range []bool{false, true} {
		t.Run(fmt.Sprintf("as the kubelet chooses: %v", mode), func(t *testing.T) {
			c, gpus := newCounter(t, mode)
			c.reaches(t, 8, 4)
			cut := gpus[2]
			for _, test := range []struct {
				name       string
				event      nvml.Event
				whole, mig int
				of         []string // UUIDs of what is unhealthy
			}{
				{"an Xid of a GPU is of its four shares", nvml.Event{UUID: gpus[1].UUID, Xid: 48, GI: -1, CI: -1}, 4, 4, []string{gpus[1].UUID}},
				{"an Xid of a MIG device is of its two shares", nvml.Event{UUID: cut.UUID, Xid: 48, GI: cut.MIG[0].GI}, 8, 2, []string{cut.MIG[0].UUID}},
				{"an Xid of a GPU that is cut is of all shares of all siblings", nvml.Event{UUID: cut.UUID, Xid: 48, GI: -1, CI: -1}, 8, 0, []string{cut.MIG[0].UUID, cut.MIG[1].UUID}},
				{"the loss of a GPU that is cut is, too", nvml.Event{UUID: cut.UUID, Lost: true, GI: -1, CI: -1}, 8, 0, []string{cut.MIG[0].UUID, cut.MIG[1].UUID}},
				{"an Xid that names no GPU is of everything", nvml.Event{Xid: 62, GI: -1, CI: -1}, 0, 0, nil},
			} {
				c.driver.events <- test.event
				c.Reoffer() // after which the event has been dealt with
				well, ill := c.offered()
				want := map[string]int{gpu.ResourceGPU: test.whole, mig3g: test.mig}
				maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
				if !maps.Equal(well, want) || len(ill) != 12-test.whole-test.mig {
					t.Errorf("%s: healthy are %v, not %v, want %v", test.name, well, ill, want)
				}
				for _, id := range ill {
					if mode && test.of != nil && !slices.ContainsFunc(test.of, func(uuid string) bool { return strings.HasPrefix(id, uuid) }) {
						t.Errorf("%s: %s is not healthy", test.name, id)
					}
				}
				c.reaches(t, test.whole, test.mig)
				c.recovers(t)
			}
		})
	}
}

// recovers lets time pass until all is well again, first in the offer and then at
// the kubelet.
func (c *counter) recovers(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; {
		c.ahead.Add(int64(time.Hour))
		c.Reoffer()
		well, ill := c.offered()
		if len(ill) == 0 && len(well) == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v never came back", ill)
		}
	}
	c.reaches(t, 8, 4)
}
