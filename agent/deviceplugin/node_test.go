package deviceplugin_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/deviceplugin/kubelettest"
)

const gpus = "nvidia.com/gpu"

// node offers what a test says. What its funcs are nil for succeeds.
type node struct {
	changed  chan struct{}
	prefer   func(available, must []string, count int) ([]string, error)
	allocate func(ctx context.Context, ids []string) (*v1beta1.ContainerAllocateResponse, error)
	preStart func(ctx context.Context, ids []string) error

	mu     sync.Mutex
	offers map[string][]deviceplugin.Device
}

func newNode(offers map[string][]deviceplugin.Device) *node {
	return &node{changed: make(chan struct{}, 1), offers: maps.Clone(offers)}
}

// offering is a node with n devices of one resource, <short>-0 and on.
func offering(resource, short string, n int) *node {
	return newNode(map[string][]deviceplugin.Device{resource: devices(short, n)})
}

func devices(short string, n int) []deviceplugin.Device {
	var out []deviceplugin.Device
	for i := range n {
		out = append(out, deviceplugin.Device{ID: fmt.Sprintf("%s-%d", short, i), Healthy: true, NUMANode: i * 2 / n})
	}
	return out
}

// set changes the offer of a resource; nil withdraws it.
func (n *node) set(resource string, d []deviceplugin.Device) {
	n.mu.Lock()
	if n.offers = maps.Clone(n.offers); d == nil {
		delete(n.offers, resource)
	} else {
		n.offers[resource] = d
	}
	n.mu.Unlock()
	n.touch()
}

func (n *node) touch() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

func (n *node) Offers() map[string][]deviceplugin.Device {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.offers
}

func (n *node) Changed() <-chan struct{} { return n.changed }

func (n *node) Prefer(_ string, available, must []string, count int) ([]string, error) {
	if n.prefer == nil {
		return nil, nil
	}
	return n.prefer(available, must, count)
}

func (n *node) Allocate(ctx context.Context, _ string, containers [][]string) (*v1beta1.AllocateResponse, error) {
	out := &v1beta1.AllocateResponse{}
	for _, ids := range containers {
		one := &v1beta1.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": "void"}}
		if n.allocate != nil {
			var err error
			if one, err = n.allocate(ctx, ids); err != nil {
				return nil, err
			}
		}
		out.ContainerResponses = append(out.ContainerResponses, one)
	}
	return out, nil
}

func (n *node) PreStart(ctx context.Context, _ string, ids []string) error {
	if n.preStart == nil {
		return nil
	}
	return n.preStart(ctx, ids)
}

// folder is a short path for sockets, which have 107 characters.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dp") //nolint:usetesting // t.TempDir has the test's name, which is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a socket may come while it goes
	return dir
}

// stale closes a listener and leaves its socket, as a killed process does.
func stale(t testing.TB, l *net.UnixListener) {
	t.Helper()
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// start begins a kubelet in dir, which ends with the test.
func start(t testing.TB, dir string) *kubelettest.Kubelet {
	t.Helper()
	k := kubelettest.New(dir, 1)
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	return k
}

// serve runs the plugin until stop is called, or the test ends.
func serve(t testing.TB, o deviceplugin.Options, n deviceplugin.Node) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- deviceplugin.Run(ctx, o, n) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func wait(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// await waits until the node's status has the resource with this capacity and
// a plugin to call, which nothing that has happened so far takes away again: the
// kubelet has noticed the end of every plugin of before.
func await(t testing.TB, k *kubelettest.Kubelet, resource string, capacity, allocatable int) {
	t.Helper()
	awaitStreams(t, k, resource, capacity, allocatable, 1)
}

// awaitBoth is await where two plugins of the resource live, one of which stands
// back and keeps its stream.
func awaitBoth(t testing.TB, k *kubelettest.Kubelet, resource string, capacity, allocatable int) {
	t.Helper()
	awaitStreams(t, k, resource, capacity, allocatable, 2)
}

func awaitStreams(t testing.TB, k *kubelettest.Kubelet, resource string, capacity, allocatable, streams int) {
	t.Helper()
	err := k.Await(wait(t), func() bool { return has(k, resource, capacity, allocatable, streams) })
	if err != nil {
		c, a, known := k.Capacity(resource)
		t.Fatalf("%s has capacity %d, allocatable %d (known %v, serving %v, %d streams), want %d and %d with %d: %v",
			resource, c, a, known, k.Serving(resource), k.Streams(resource), capacity, allocatable, streams, err)
	}
}

func has(k *kubelettest.Kubelet, resource string, capacity, allocatable, streams int) bool {
	c, a, _ := k.Capacity(resource)
	return c == capacity && a == allocatable && k.Serving(resource) && k.Streams(resource) == streams
}

// awaitCount waits until a counter has the value: the plugin counts what it did
// after the kubelet has had it.
func awaitCount(t testing.TB, what string, c *atomic.Int64, want int64) {
	t.Helper()
	for ctx := wait(t); c.Load() != want; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%d %s counted, want %d", c.Load(), what, want)
		}
	}
}

// awaitFile waits until ok is true of the file: at once, or after some change
// in its folder.
func awaitFile(t testing.TB, path string, ok func(os.FileInfo, error) bool) {
	t.Helper()
	w, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Add(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	for ctx := wait(t); !ok(os.Lstat(path)); {
		select {
		case <-w.Events:
		case <-ctx.Done():
			t.Fatalf("%s did not become what was awaited", path)
		}
	}
}

// sockets returns the names of the sockets in a folder, beside the kubelet's.
func sockets(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		if e.Type()&os.ModeSocket != 0 && e.Name() != "kubelet.sock" {
			names = append(names, e.Name())
		}
	}
	return names
}

func pod(uid string, limits map[string]int) kubelettest.Pod {
	return kubelettest.Pod{UID: uid, Namespace: "default", Name: uid, Containers: []kubelettest.Container{{Name: "c", Limits: limits}}}
}

// log waits for a text in what is logged.
type log struct {
	text string
	once sync.Once
	seen chan struct{}
}

func newLog(text string) *log { return &log{text: text, seen: make(chan struct{})} }

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *log) Write(p []byte) (int, error) {
	if strings.Contains(string(p), l.text) {
		l.once.Do(func() { close(l.seen) })
	}
	return len(p), nil
}

func (l *log) await(t testing.TB) {
	t.Helper()
	select {
	case <-l.seen:
	case <-wait(t).Done():
		t.Fatalf("not logged: %s", l.text)
	}
}
