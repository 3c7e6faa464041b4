package mps_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"berth.dev/berth/agent/mps"
)

// patience ends what hangs.
const patience = 3 * time.Minute

// bench is a folder for MPS, and what the manager does and says.
type bench struct {
	t    *testing.T
	root string
	told chan struct{} // health has more

	changed   chan struct{} // files, or compute modes
	mu        sync.Mutex
	health    []map[string]string // as it was told, and nobody has read yet
	exclusive map[string]bool
	busy      []string
	refuse    error         // of SetExclusive
	gate      chan struct{} // where it waits; nil: it does not
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	root, err := os.MkdirTemp("", "mps") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, root: root, told: make(chan struct{}, 1), exclusive: map[string]bool{}, changed: make(chan struct{}, 1)}
	b.watch()
	t.Cleanup(func() {
		if pid := b.pid(); pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = os.RemoveAll(root)
	})
	return b
}

// watch pokes changed when the daemon writes.
func (b *bench) watch() {
	b.t.Helper()
	files, err := fsnotify.NewWatcher()
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan struct{})
	b.t.Cleanup(func() { _ = files.Close(); <-done })
	for _, dir := range []string{b.path("log"), b.path("pipe")} {
		if err := errors.Join(os.MkdirAll(dir, 0o755), files.Add(dir)); err != nil {
			b.t.Fatal(err)
		}
	}
	go func() {
		defer close(done)
		for range files.Events {
			b.poke()
		}
	}()
}

func (b *bench) poke() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// await waits until something holds, asking again whenever the daemon wrote.
func (b *bench) await(what string, is func() bool) {
	b.t.Helper()
	deadline := time.After(patience)
	for !is() {
		select {
		case <-b.changed:
		case <-deadline:
			b.t.Fatalf("%s: never", what)
		}
	}
}

func (b *bench) path(name string) string { return filepath.Join(b.root, "nvidia.com/gpu", name) }

func (b *bench) behave(how string) {
	b.t.Helper()
	if err := os.WriteFile(b.path("log/behave"), []byte(how), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) pid() int {
	text, _ := os.ReadFile(b.path("pipe/nvidia-cuda-mps-control.pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// commands returns what all daemons were told until now.
func (b *bench) commands() []string {
	text, _ := os.ReadFile(b.path("log/commands"))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func (b *bench) run(o mps.Options) (*mps.Manager, func()) {
	b.t.Helper()
	program, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	if o.Program == "" {
		o.Program = program
	}
	o.Root = b.root
	o.SetExclusive = func(_ context.Context, uuid string, on bool) error {
		if b.gate != nil {
			<-b.gate
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if on && b.refuse != nil {
			return b.refuse
		}
		b.exclusive[uuid] = on
		b.poke()
		return nil
	}
	o.Busy = func() []string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.busy
	}
	o.Health = func(h map[string]string) { // must not wait: tests do not read all of it
		b.mu.Lock()
		defer b.mu.Unlock()
		b.health = append(b.health, h)
		select {
		case b.told <- struct{}{}:
		default:
		}
	}
	if o.Interval == 0 {
		o.Interval = 10 * time.Millisecond
	}
	if o.Backoff == 0 {
		o.Backoff = 10 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := mps.New(o)
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-done })
	b.t.Cleanup(stop)
	return m, stop
}

func (b *bench) hold(by ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = by
}

func (b *bench) isExclusive(uuid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.exclusive[uuid]
}

// until waits until a GPU's reason contains words; "" is healthy.
func (b *bench) until(uuid, words string) string {
	b.t.Helper()
	for last := "nothing"; ; {
		h, ok := b.next()
		if !ok {
			b.t.Fatalf("the reason of %s never was %q, last %q", uuid, words, last)
		}
		why, ok := h[uuid]
		if ok && (why == "" && words == "" || words != "" && strings.Contains(why, words)) {
			return why
		}
		last = why
	}
}

// next returns what was told of health after what has been read; nothing comes for
// long, and ok is false.
func (b *bench) next() (h map[string]string, ok bool) {
	deadline := time.After(patience)
	for {
		b.mu.Lock()
		if len(b.health) > 0 {
			h, b.health = b.health[0], b.health[1:]
			b.mu.Unlock()
			return h, true
		}
		b.mu.Unlock()
		select {
		case <-b.told:
		case <-deadline:
			return nil, false
		}
	}
}
