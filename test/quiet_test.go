package test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Each run of a command takes 0.1 to 0.2 s of CPU, and most commands ask what the API server
// has. So a command runs again when something is written there. Other things change without it, such as
// logs, metrics, and ages: they are asked about every unasked. Objects that kubectl gets do
// not; idle only keeps a script from hanging on a write that was missed.
// A command that takes next to nothing, such as cat, runs again after a glance.
const (
	glance  = 100 * time.Millisecond
	unasked = 1500 * time.Millisecond
	idle    = 5 * time.Second
	nothing = 20 * time.Millisecond
)

// question is a command that a script asks until its answer is right.
type question struct {
	from  time.Time
	store *writes // nil is that no store is known
	seen  int     // writes when it was asked
}

// ask begins one try.
func ask(ts *testscript.TestScript) question {
	q := question{from: time.Now(), store: writesOf(ts)}
	if q.store != nil {
		q.seen = q.store.number()
	}
	return q
}

// pause waits until the question is worth asking again, for a command that reads more than objects.
func (q question) pause() { q.pauseFor(unasked) }

// pauseFor waits until something has been written since the question was asked, or for most. Asking
// takes the time of others: no more than a quarter of what passes.
func (q question) pauseFor(most time.Duration) {
	time.Sleep(min(500*time.Millisecond, max(glance, 3*time.Since(q.from))))
	if q.store == nil {
		time.Sleep(unasked - time.Since(q.from))
		return
	}
	q.store.after(q.seen, most-time.Since(q.from))
}

// readsObjects reports whether a command prints nothing but objects of the API server.
func readsObjects(args []string) bool {
	if len(args) < 2 || args[0] != "kubectl" || args[1] != "get" {
		return false
	}
	for _, a := range args {
		if strings.HasPrefix(a, "--raw") {
			return false
		}
	}
	return true
}

// writes counts what is written into the store of a control plane, but for leases, which
// are renewed as long as it runs.
type writes struct {
	made time.Time // of the store's socket: a control plane that is started again has a new one
	stop context.CancelFunc

	mu    sync.Mutex
	count int           // 0 is that the store has not answered yet
	more  chan struct{} // is closed by the next write
}

// number is how many writes there were so far.
func (w *writes) number() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// after waits until there were more than seen writes, or for most.
func (w *writes) after(seen int, most time.Duration) (more bool) {
	w.mu.Lock()
	count, next := w.count, w.more
	w.mu.Unlock()
	if count != seen {
		return true
	} else if count == 0 {
		most = min(most, unasked)
	}
	select {
	case <-next:
		return true
	case <-time.After(most):
		return false
	}
}

// follow counts until ctx ends.
func (w *writes) follow(ctx context.Context, client *clientv3.Client) {
	defer client.Close()
	for response := range client.Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithCreatedNotify()) {
		w.saw(&response)
	}
}

// saw counts what a watch reports. That it begins counts, too: what was written before is not seen.
func (w *writes) saw(response *clientv3.WatchResponse) {
	n := 0
	if response.Created {
		n++
	}
	for _, e := range response.Events {
		if !bytes.HasPrefix(e.Kv.Key, []byte("/registry/leases/")) && !bytes.HasPrefix(e.Kv.Key, []byte("/registry/peerserverleases/")) {
			n++
		}
	}
	if n == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count += n
	close(w.more)
	w.more = make(chan struct{})
}

// stores are the stores that are followed, by their sockets.
var stores = struct {
	sync.Mutex
	of map[string]*writes
}{of: map[string]*writes{}}

// writesOf follows the store of a script's control plane; nil is that there is none.
func writesOf(ts *testscript.TestScript) *writes {
	return writesIn(ts.Getenv("WORK") + "/share/berth/default/etcd.sock")
}

// writesIn follows the store behind a socket.
func writesIn(socket string) *writes {
	stores.Lock()
	defer stores.Unlock()
	w := stores.of[socket]
	info, err := os.Stat(socket)
	if w != nil && err == nil && w.made.Equal(info.ModTime()) {
		return w
	}
	if w != nil {
		w.stop()
		delete(stores.of, socket)
	}
	if err != nil {
		return nil
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}, Logger: zap.NewNop()})
	if err != nil {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	w = &writes{made: info.ModTime(), stop: stop, more: make(chan struct{})}
	go w.follow(ctx, client)
	stores.of[socket] = w
	return w
}

// forgetWrites ends what follows the stores below a folder.
func forgetWrites(work string) {
	stores.Lock()
	defer stores.Unlock()
	for socket, w := range stores.of {
		if strings.HasPrefix(socket, work+"/") {
			w.stop()
			delete(stores.of, socket)
		}
	}
}
