package host_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth.dev/berth/fleet/host"
)

// patience only ends what hangs.
const patience = 2 * time.Minute

// bench is a Runner in its own folder.
type bench struct {
	t    *testing.T
	r    *host.Runner
	dir  string
	news chan struct{}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if _, err := os.Stat("/proc/self/net/tcp"); err != nil {
		t.Skip("what is checked here is read from /proc")
	}
	b := &bench{t: t, dir: t.TempDir(), news: make(chan struct{}, 1)}
	b.r = host.Open(host.Options{Pass: []string{"A"}, Dir: b.dir, Kubeconfig: filepath.Join(b.dir, "kubeconfig")})
	t.Cleanup(b.r.Close)
	return b
}

func key(run int) host.Key { return host.Key{UID: "uid-1", Container: "c", Run: run} }

// request runs this test's helper.
func (b *bench) request(k host.Key, words ...string) host.Request {
	return host.Request{
		Key: k, Rule: host.Rule{Pattern: "x*", Words: append([]string{os.Args[0], "helper"}, words...)},
		Namespace: "ns", Pod: "p", Environ: func() []string { return []string{"NB_PREFIX=/notebook/ns/p", "LD_PRELOAD=/x", "A=b"} },
		Changed: func() {
			select {
			case b.news <- struct{}{}:
			default:
			}
		},
	}
}

// await waits until the state of a run is as wanted.
func (b *bench) await(k host.Key, what string, is func(host.State) bool) host.State {
	b.t.Helper()
	end := time.After(patience)
	for {
		s, _ := b.r.State(k)
		if is(s) {
			return s
		}
		select {
		case <-b.news:
		case <-time.After(50 * time.Millisecond): // what it prints is no news
		case <-end:
			b.t.Fatalf("run %s is not %s after %v: %+v\n%v", k, what, patience, s, texts(s))
		}
	}
}

func ready(s host.State) bool { return s.Ready }
func ended(s host.State) bool { return s.Exit != nil }

func texts(s host.State) []string {
	var out []string
	for _, l := range s.Lines() {
		out = append(out, l.Text)
	}
	return out
}

// gone reports whether a process is no more, or waits for whoever inherited it.
func gone(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(raw), ") Z ")
}

// awaitGone waits for the end of a process that is nobody's child here.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); !gone(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d still runs", pid)
		}
	}
}

func get(t *testing.T, port int, path string) string {
	t.Helper()
	res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestAProcessServesFromItsFolderUntilItIsStopped(t *testing.T) {
	b := newBench(t)
	req := b.request(key(0), "serve", "127.0.0.1:{port}", "{prefix}")
	req.Claim, req.GPUs = "home", true
	b.r.Start(req)
	s := b.await(key(0), "ready", ready)
	if want := filepath.Join(b.dir, "volumes", "ns", "home"); s.Home != want {
		t.Errorf("home is %s, want %s", s.Home, want)
	}
	if got := s.Command[3]; got != "127.0.0.1:"+strconv.Itoa(s.Port) || s.Command[4] != "/notebook/ns/p" {
		t.Errorf("the command is %q, the port %d", s.Command, s.Port)
	}
	env := strings.Split(get(t, s.Port, "/env"), "\n")
	for _, want := range []string{"A=b", "HOME=" + s.Home, "PORT=" + strconv.Itoa(s.Port), "BERTH_POD=p", "BERTH_NAMESPACE=ns", "BERTH_HOME=" + s.Home} {
		if !slices.Contains(env, want) {
			t.Errorf("the environment lacks %s: %q", want, env)
		}
	}
	if slices.Contains(env, "LD_PRELOAD=/x") || !slices.Equal(s.LeftOut, []string{"LD_PRELOAD"}) {
		t.Errorf("left out are %q of %q", s.LeftOut, env)
	}
	bin := filepath.Join(b.dir, "host", "bin")
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "PATH="+bin+":") }) {
		t.Errorf("nvidia-smi does not come first: %q", env)
	}
	if text, err := os.ReadFile(filepath.Join(bin, "nvidia-smi")); err != nil || !strings.HasPrefix(string(text), "#!/bin/sh\n") {
		t.Errorf("nvidia-smi is %q, %v", text, err)
	}
	if out, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", s.PID)); err != nil || out != s.Home {
		t.Errorf("it works in %s (%v), want %s", out, err, s.Home)
	}
	b.r.Stop(key(0), time.Minute)
	s = b.await(key(0), "ended", ended)
	if s.Exit.Code != 143 || s.Ready || !slices.Contains(texts(s), "serving") {
		t.Errorf("ended as %+v, ready %v, log %q", s.Exit, s.Ready, texts(s))
	}
}

func TestAProcessThatIgnoresSIGTERMIsKilledAfterTheGracePeriod(t *testing.T) {
	b := newBench(t)
	b.r.Start(b.request(key(0), "stubborn", "127.0.0.1:{port}"))
	b.await(key(0), "ready", ready)
	b.r.Stop(key(0), time.Hour)
	b.r.Stop(key(0), 50*time.Millisecond) // the earlier end counts
	if s := b.await(key(0), "ended", ended); s.Exit.Code != 137 {
		t.Errorf("ended with %d, want 137", s.Exit.Code)
	}
}

func TestWhatAProcessLeavesBehindEndsWithIt(t *testing.T) {
	b := newBench(t)
	b.r.Start(b.request(key(0), "parent", "127.0.0.1:{port}"))
	b.await(key(0), "ready", ready)
	s := b.await(key(0), "heard of", func(s host.State) bool { return len(texts(s)) > 0 })
	_, number, _ := strings.Cut(texts(s)[0], " ")
	child, err := strconv.Atoi(number)
	if err != nil || gone(child) {
		t.Fatalf("no child: %q", texts(s))
	}
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil { // a crash: nobody was told
		t.Fatal(err)
	}
	if s := b.await(key(0), "ended", ended); s.Exit.Code != 137 || s.Exit.Reason != "" {
		t.Errorf("ended as %+v, want code 137 and no reason", s.Exit)
	}
	awaitGone(t, child)
}

func TestAProcessThatListensBeyondLoopbackIsEnded(t *testing.T) {
	for _, address := range []string{"0.0.0.0:{port}", "[::]:{port}"} {
		t.Run(address, func(t *testing.T) {
			b := newBench(t)
			b.r.Start(b.request(key(0), "serve", address))
			s := b.await(key(0), "ended", ended)
			if s.Exit.Reason == "" && s.Exit.Code == 4 {
				t.Skip("this machine has no such address")
			}
			if s.Exit.Reason != host.ReasonRefused || !strings.Contains(s.Exit.Message, "the host process of x* listened on") ||
				!strings.Contains(s.Exit.Message, ":"+strconv.Itoa(s.Port)) {
				t.Errorf("ended as %+v", s.Exit)
			}
		})
	}
}

func TestAProcessThatListensBeyondLoopbackIsNeverReady(t *testing.T) {
	b := newBench(t)
	r := b.request(key(0), "serve", "127.0.0.1:{port}")
	r.Probe = host.Probe{Path: "/open", Every: time.Second} // it begins to while it is asked
	b.r.Start(r)
	s := b.await(key(0), "ended", func(s host.State) bool {
		if s.Ready {
			t.Error("it is ready, and listens on all addresses")
		}
		return s.Exit != nil
	})
	if s.Exit.Reason != host.ReasonRefused {
		t.Errorf("ended as %+v", s.Exit)
	}
}

func TestAProbeDecidesWhenAProcessIsReady(t *testing.T) {
	b := newBench(t)
	failing := b.request(key(0), "serve", "127.0.0.1:{port}")
	failing.Probe = host.Probe{Path: "/fail", Every: time.Second}
	b.r.Start(failing)
	passing := b.request(host.Key{UID: "uid-1", Container: "other"}, "serve", "127.0.0.1:{port}")
	passing.Probe = host.Probe{Path: "/env", Every: time.Second}
	b.r.Start(passing)
	b.await(passing.Key, "ready", ready)
	if s, _ := b.r.State(key(0)); s.Ready {
		t.Error("a process that answers 503 is ready")
	}
}

func TestLogs(t *testing.T) {
	b := newBench(t)
	b.r.Start(b.request(key(0), "print", "7", "one\ntwo"))
	if s := b.await(key(0), "ended", ended); s.Exit.Code != 7 || !slices.Equal(texts(s), []string{"one", "two"}) {
		t.Errorf("ended with %d, log %q", s.Exit.Code, texts(s))
	}
	for run := 1; run <= 2; run++ {
		b.r.Start(b.request(key(run), "print", "0", strings.Repeat("x", 40<<10)+"\n"+strings.Repeat("line\n", 5000)))
		b.await(key(run), "ended", ended)
	}
	s, _ := b.r.State(key(2))
	if n := len(s.Lines()); n != 2000 {
		t.Errorf("%d lines are kept, want 2000", n)
	}
	for i, l := range s.Lines()[1:] {
		if !l.At.After(s.Lines()[i].At) {
			t.Fatalf("line %d is not later than the one before", i+1)
		}
	}
	b.r.Close()
	later := host.Open(host.Options{Pass: []string{"A"}, Dir: b.dir})
	defer later.Close()
	if s, ours := later.State(key(2)); ours || len(s.Lines()) != 2000 {
		t.Errorf("after a restart %d lines are left, ours %v", len(s.Lines()), ours)
	}
	if s, _ := later.State(key(0)); len(s.Lines()) != 0 {
		t.Error("the log before the one before is still there")
	}
}

func TestWhatCannotBeStarted(t *testing.T) {
	tests := []struct {
		name string
		edit func(*host.Request)
		want string
	}{
		{"a program that is not there", func(r *host.Request) { r.Rule.Words = []string{"berth-no-such-program"} }, "install it"},
		{"a prefix that a shell could read", func(r *host.Request) { r.Environ = func() []string { return []string{"NB_PREFIX=/;reboot"} } }, "takes only a path"},
		{"a claim that leads elsewhere", func(r *host.Request) { r.Claim = ".." }, "is not a valid directory name"},
		{"a subPath that leads elsewhere", func(r *host.Request) { r.Claim, r.SubPath = "a", "../b" }, "is outside its volume"},
		{"a container name that leads elsewhere", func(r *host.Request) { r.Container = "../c" }, "is not a valid directory name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			req := b.request(key(0), "sleep")
			tt.edit(&req)
			b.r.Start(req)
			s := b.await(req.Key, "ended", ended)
			if s.Exit.Reason != host.ReasonStart || s.Exit.Code != 128 || !strings.Contains(s.Exit.Message, tt.want) {
				t.Errorf("ended as %+v, want %q in it", s.Exit, tt.want)
			}
		})
	}
}

func TestFoldersGoWithPodsAndVolumes(t *testing.T) {
	b := newBench(t)
	req := b.request(key(0), "serve", "127.0.0.1:{port}")
	req.Claim, req.SubPath = "data", "me"
	b.r.Start(req)
	other := b.request(host.Key{UID: "uid-2", Container: "c"}, "serve", "127.0.0.1:{port}")
	b.r.Start(other)
	s, o := b.await(key(0), "ready", ready), b.await(other.Key, "ready", ready)
	if want := filepath.Join(b.dir, "volumes", "ns", "data", "me"); s.Home != want {
		t.Errorf("home is %s, want %s", s.Home, want)
	}
	b.r.Discard("ns", "data")
	if _, err := os.Stat(s.Home); err != nil {
		t.Errorf("the home of a running process was removed: %v", err)
	}
	b.r.Forget("uid-1")
	b.r.Forget("uid-2")
	b.r.Forget("..")
	b.r.Close() // waits for all
	for _, pid := range []int{s.PID, o.PID} {
		if !gone(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
	if _, err := os.Stat(o.Home); err == nil {
		t.Errorf("%s is still there", o.Home)
	}
	if _, err := os.Stat(s.Home); err != nil {
		t.Errorf("a volume went with its pod: %v", err)
	}
	b.r.Discard("ns", "data")
	if _, err := os.Stat(s.Home); err == nil {
		t.Errorf("%s is still there", s.Home)
	}
}

// killed starts a Runner in its own process, kills that, and returns the
// folder and what it ran.
func killed(t *testing.T, what string) (dir string, pid int) {
	t.Helper()
	newBench(t)
	dir = t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "helper", "guard", dir, "x="+os.Args[0]+" helper "+what+" 127.0.0.1:{port}")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the Runner ended")
	}
	if pid, err = strconv.Atoi(lines.Text()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	return dir, pid
}

func TestAProcessEndsWhenItsRunnerIsKilled(t *testing.T) {
	_, pid := killed(t, "serve")
	awaitGone(t, pid)
}

func TestAStaleProcessIsEndedByTheNextRunner(t *testing.T) {
	dir, pid := killed(t, "stubborn")
	if gone(pid) {
		t.Fatal("a process that ignores SIGTERM is gone")
	}
	host.Open(host.Options{Pass: []string{"A"}, Dir: t.TempDir()}).Close() // another folder's is not touched
	if gone(pid) {
		t.Fatal("a Runner ended a process of another folder")
	}
	host.Open(host.Options{Pass: []string{"A"}, Dir: dir}).Close()
	awaitGone(t, pid)
}

func TestAProcessThatIsAskedNothingIsReadyWhenItRuns(t *testing.T) {
	b := newBench(t)
	req := b.request(key(0), "sleep")
	req.Probe = host.Probe{None: true}
	b.r.Start(req)
	b.await(key(0), "ready", ready)
}

func TestAProcessThatIsAskedNothingMayNotListenBeyondLoopbackEither(t *testing.T) {
	b := newBench(t)
	req := b.request(key(0), "serve", "0.0.0.0:0")
	req.Probe = host.Probe{None: true}
	b.r.Start(req)
	if s := b.await(key(0), "ended", ended); s.Exit.Reason != host.ReasonRefused {
		t.Errorf("it ended as %+v", s.Exit)
	}
}
