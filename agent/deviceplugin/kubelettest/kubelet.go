// Package kubelettest is the kubelet's side of the device plugin protocol in
// process, for tests: a kubelet that admits pods, starts their containers and
// can be stopped, killed and started again, and another vendor's plugin.
//
// It behaves as the device manager of kubelet 1.36 does
// (pkg/kubelet/cm/devicemanager), also where that is odd: who registers last
// has the resource, device lists are taken from every stream that is still
// open, and the end of an older stream drops the newer plugin. It chooses
// devices at random where it has no preference to follow. It runs no
// containers, and knows no NUMA hints and no DRA.
//
// It is not a test of the real kubelet; test/node has that.
package kubelettest

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// CheckpointName is the file in which a kubelet remembers who holds what.
const CheckpointName = "kubelet_internal_checkpoint"

// StopGrace is how long a kubelet still counts the resource of a plugin that
// has gone, all of its devices unhealthy.
const StopGrace = 5 * time.Minute

// Kubelet is a kubelet's device manager. Its methods may be called from many
// goroutines at once, save Start, Stop and Kill.
type Kubelet struct {
	// Now is asked for the time, by which stopped plugins are forgotten. Set
	// it before Start.
	Now func() time.Time

	dir   string
	admit sync.Mutex // pods are admitted one by one

	mu      sync.Mutex
	rand    *rand.Rand
	changed chan struct{} // closed and replaced at every change
	grpc    *grpc.Server
	life    int // counts Starts
	serving sync.WaitGroup
	clients map[string]*client   // by resource: who registered last
	open    map[*client]struct{} // with a stream, also older ones
	ends    map[string]*endpoint
	all     map[string]map[string]*v1beta1.Device
	healthy map[string]set
	sick    map[string]set
	held    map[holder]grant
	taken   map[string]set // devices by resource, also of pods that have ended
	active  map[string]Pod // what the API says should run here; survives restarts
	log     []Registration
}

// Registration is one that the kubelet was asked for.
type Registration struct {
	Resource, Endpoint string
	Options            *v1beta1.DevicePluginOptions
	At                 time.Time
	Err                error // why it was refused; nil: it was not
}

type set map[string]bool

// holder is one container's part in one resource.
type holder struct{ pod, container, resource string }

type grant struct {
	ids  []string
	numa map[int64][]string
	resp *v1beta1.ContainerAllocateResponse
}

// endpoint is where calls for a resource go.
type endpoint struct {
	api     v1beta1.DevicePluginClient // nil: of a plugin known from the checkpoint only
	conn    *grpc.ClientConn           // of api
	options *v1beta1.DevicePluginOptions

	mu      sync.Mutex
	stopped time.Time
}

func (e *endpoint) stop(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = at
}

// since says when the endpoint was stopped; the zero time: it runs.
func (e *endpoint) since() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopped
}

// New returns a kubelet whose folder is dir; seed decides what it chooses where
// it may choose. It does nothing before Start.
func New(dir string, seed uint64) *Kubelet {
	return &Kubelet{
		Now: time.Now, dir: dir,
		rand: rand.New(rand.NewPCG(seed, 0)), changed: make(chan struct{}), active: make(map[string]Pod),
	}
}

// Start begins as a kubelet does that knows nothing but its checkpoint: it
// removes every socket in its folder, makes kubelet.sock and accepts plugins.
func (k *Kubelet) Start() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.grpc != nil {
		return errors.New("start kubelet: it runs")
	}
	k.clients, k.open, k.ends = make(map[string]*client), make(map[*client]struct{}), make(map[string]*endpoint)
	k.all, k.healthy, k.sick = make(map[string]map[string]*v1beta1.Device), make(map[string]set), make(map[string]set)
	k.held = make(map[holder]grant)
	if err := k.readCheckpoint(); err != nil {
		return err
	}
	k.taken = k.inUse()
	if err := removeSockets(k.dir); err != nil {
		return err
	}
	path := filepath.Join(k.dir, "kubelet.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false) // a kubelet leaves it
	server := grpc.NewServer()
	k.grpc = server
	k.life++
	v1beta1.RegisterRegistrationServer(server, &registration{k: k, life: k.life})
	k.serving.Go(func() { _ = server.Serve(l) })
	k.broadcast()
	return nil
}

// Kill ends the kubelet at once, as kill -9 does: kubelet.sock stays, and
// no process listens there. Pods that run go on running.
func (k *Kubelet) Kill() {
	k.mu.Lock()
	server := k.grpc
	k.grpc = nil
	for c := range k.open {
		c.cancel()
		_ = c.conn.Close() // it may have ended
	}
	k.mu.Unlock()
	if server != nil {
		server.Stop()
		k.serving.Wait()
	}
}

// Stop ends the kubelet and removes kubelet.sock.
func (k *Kubelet) Stop() {
	k.Kill()
	_ = os.Remove(filepath.Join(k.dir, "kubelet.sock")) // may never have been
}

// Restart is Kill and Start.
func (k *Kubelet) Restart() error {
	k.Kill()
	return k.Start()
}

// removeSockets removes what is a socket and leaves the rest.
func removeSockets(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSocket == 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove socket: %w", err)
		}
	}
	return nil
}

// broadcast wakes who awaits a change. It needs k.mu.
func (k *Kubelet) broadcast() {
	close(k.changed)
	k.changed = make(chan struct{})
}
