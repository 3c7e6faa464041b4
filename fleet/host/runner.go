package host

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	closeGrace  = 5 * time.Second // between SIGTERM and SIGKILL when the Runner is closed
	refuseGrace = 2 * time.Second // when a process is refused, or its pod is gone already
)

// Options say where a Runner keeps what it needs.
type Options struct {
	// Dir is the data folder. Below it the Runner has the folders volumes, with
	// the homes that outlive their pods, and host, with all else.
	Dir string
	// Kubeconfig is how nvidia-smi in a process asks for the GPUs of its container.
	Kubeconfig string
	// Pass names variables that processes get beside those that all do: of their
	// container, or else of this program. One that ends with a * is the begin of names.
	Pass []string
	// Log gets what a person should know; nil is slog.Default.
	Log *slog.Logger
}

// Runner runs host processes. Its methods are safe for concurrent use, and
// those that a worker calls do not wait for processes.
type Runner struct {
	o      Options
	starts chan func() // run on one thread of the system, which outlives them
	work   sync.WaitGroup

	mu      sync.Mutex
	runs    map[Key]*run
	ports   map[int]bool // promised to a run
	spawner bool         // the thread is there
	closed  bool
}

// Open returns a Runner. Processes that an earlier one in the same folder left
// behind are ended first, if they can be told to be its own.
func Open(o Options) *Runner {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	r := &Runner{o: o, starts: make(chan func()), runs: map[Key]*run{}, ports: map[int]bool{}}
	r.endStale()
	return r
}

// Start starts a run. It returns at once: State tells what became of it. A run
// that is there already stays.
func (r *Runner) Start(req Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.runs[req.Key] != nil {
		return
	}
	if !r.spawner {
		r.spawner = true
		r.work.Go(r.spawn)
	}
	p := &run{runner: r, req: req, done: make(chan struct{})}
	r.runs[req.Key] = p
	r.work.Go(p.live)
}

// spawn starts processes. The kernel ends a child when the thread that forked
// it ends, so this thread stays until the Runner is closed.
func (r *Runner) spawn() {
	runtime.LockOSThread()
	for f := range r.starts {
		f()
	}
}

// Stop tells a run to end: SIGTERM to its process group, and SIGKILL after the
// grace period. Told again, the earlier end counts. A run that has ended, or
// that is unknown, is left as it is.
func (r *Runner) Stop(k Key, grace time.Duration) {
	r.mu.Lock()
	p := r.runs[k]
	r.mu.Unlock()
	if p != nil {
		p.stop(grace, nil)
	}
}

// State returns what a run is at now, and whether it was started by this Runner.
// Of one that an earlier Runner started, only the log is known.
func (r *Runner) State(k Key) (State, bool) {
	r.mu.Lock()
	p := r.runs[k]
	r.mu.Unlock()
	if p != nil {
		return p.now(), true
	}
	return State{Lines: func() []Line {
		if !k.local() {
			return nil
		}
		lines, err := readOutput(r.logPath(k))
		if err != nil {
			r.o.Log.Warn("a log is not readable", "error", err)
		}
		return lines
	}}, false
}

// Forget ends what runs for a pod that is gone, and then removes its folder.
func (r *Runner) Forget(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || !(Key{UID: uid, Container: uid}).local() {
		return
	}
	var mine []*run
	for k, p := range r.runs {
		if k.UID == uid {
			mine = append(mine, p)
		}
	}
	dir := r.podDir(uid)
	if _, err := os.Lstat(dir); err != nil && mine == nil {
		return // it had no process
	}
	r.work.Go(func() { r.bury(mine, dir) })
}

// bury ends runs, waits for their end, and removes their folder.
func (r *Runner) bury(runs []*run, dir string) {
	for _, p := range runs {
		p.stop(refuseGrace, nil)
	}
	for _, p := range runs {
		<-p.done
	}
	r.mu.Lock()
	for _, p := range runs {
		delete(r.runs, p.req.Key)
	}
	r.mu.Unlock()
	if err := os.RemoveAll(dir); err != nil {
		r.o.Log.Warn("the directory of a pod was not removed", "folder", dir, "error", err)
	}
}

// Discard removes the folder of a claim whose volume was deleted, unless it is
// the home of a process.
func (r *Runner) Discard(namespace, claim string) {
	dir, err := r.claimDir(namespace, claim, "")
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.runs {
		if p.req.Namespace == namespace && p.req.Claim == claim && !p.ended() {
			return
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		r.o.Log.Warn("the directory of a volume was not removed", "folder", dir, "error", err)
	}
}

// Close ends every process, within closeGrace, and waits for all that was
// started. Nothing can be started from then on.
func (r *Runner) Close() {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.closed = true
	runs := make([]*run, 0, len(r.runs))
	for _, p := range r.runs {
		runs = append(runs, p)
	}
	r.mu.Unlock()
	for _, p := range runs {
		p.stop(closeGrace, nil)
	}
	for _, p := range runs {
		<-p.done
	}
	close(r.starts)
	r.work.Wait()
}

// mark is the value of the variable that every process of a run, and what it
// starts, carries: the data folder and the key.
func (r *Runner) mark(k Key) string { return r.tag() + k.String() }

// tag begins the marks of this folder.
func (r *Runner) tag() string { return r.o.Dir + "//" }

func (r *Runner) podDir(uid string) string { return filepath.Join(r.o.Dir, "host", uid) }

func (r *Runner) runDir(k Key) string {
	return filepath.Join(r.podDir(k.UID), "containers", k.Container)
}

func (r *Runner) logPath(k Key) string { return filepath.Join(r.runDir(k), strconv.Itoa(k.Run)+".log") }

// claimDir is the folder of a claim, and in it a folder that a mount names.
func (r *Runner) claimDir(namespace, claim, sub string) (string, error) {
	for _, part := range []string{namespace, claim} {
		if !filepath.IsLocal(part) || filepath.Base(part) != part || part == "." {
			return "", fmt.Errorf("volume %s/%s is not a valid directory name", namespace, claim)
		}
	}
	if sub != "" && !filepath.IsLocal(sub) {
		return "", fmt.Errorf("the subPath %q is outside its volume", sub)
	}
	return filepath.Join(r.o.Dir, "volumes", namespace, claim, sub), nil
}

// keep leaves the logs of the last two runs of a container: the current one and
// the one before, which kubectl logs -p shows.
func (r *Runner) keep(k Key) {
	logs, _ := filepath.Glob(filepath.Join(r.runDir(k), "*.log"))
	for _, path := range logs {
		name := filepath.Base(path)
		if !slices.Contains([]string{strconv.Itoa(k.Run) + ".log", strconv.Itoa(k.Run-1) + ".log"}, name) {
			_ = os.Remove(path) // an old log more does no harm
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for old, p := range r.runs {
		if old.UID == k.UID && old.Container == k.Container && old.Run < k.Run-1 && p.ended() {
			delete(r.runs, old)
		}
	}
}
