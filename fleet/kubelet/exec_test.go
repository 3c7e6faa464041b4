package kubelet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	exitcode "k8s.io/client-go/util/exec"

	"berth.dev/berth/core/sharing"
	"berth.dev/berth/fleet/kubelet"
)

// stream runs a command in container main of pod p as kubectl exec does.
func stream(t *testing.T, cfg *rest.Config, path string, q url.Values, o remotecommand.StreamOptions) error {
	t.Helper()
	u, err := url.Parse(cfg.Host + path)
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]bool{"input": o.Stdin != nil, "output": o.Stdout != nil, "error": o.Stderr != nil, "tty": o.Tty} {
		if set {
			q.Set(name, "1")
		}
	}
	u.RawQuery = q.Encode()
	e, err := remotecommand.NewSPDYExecutor(cfg, "POST", u)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // it ends only what hangs
	defer cancel()
	return e.StreamWithContext(ctx, o)
}

func TestExec(t *testing.T) {
	mig := pod("p")
	mig.Devices = []sharing.Device{{ID: "MIG-a", UUID: "MIG-a", GPU: 1, Profile: "1g.5gb"}}
	shares := pod("p")
	shares.Devices = []sharing.Device{{ID: uuid + "::0", UUID: uuid, GPU: 3}, {ID: uuid + "::1", UUID: uuid, GPU: 3}}
	host := pod("p")
	host.Hostname = node
	none := pod("p")
	none.Devices, none.Env = nil, nil
	plugin := none
	plugin.Env = []string{"NVIDIA_VISIBLE_DEVICES=all"}
	tests := []struct {
		name   string
		c      kubelet.Container
		cmd    []string
		stdin  string
		tty    bool
		stdout string // contained in it
		stderr string // contained in it
		code   int
	}{
		{name: "nvidia-smi shows the container's GPU", c: pod("p"), cmd: []string{"nvidia-smi", "-L"}, stdout: "GPU 0: NVIDIA A100-SXM4-40GB (UUID: " + uuid},
		{name: "the devices are those it holds", c: pod("p"), cmd: []string{"ls", "/dev/nvidia*"}, stdout: "/dev/nvidia3\n/dev/nvidiactl\n"},
		{name: "two shares of one GPU are one device", c: shares, cmd: []string{"sh", "-c", "ls /dev/nvidia[0-9] | wc -l"}, stdout: "1\n"},
		// GPU 1, GPU instance 7, compute instance 0: 3 + 135 + 7 x 9 = 201, 202.
		{name: "a MIG device has its capabilities", c: mig, cmd: []string{"ls", "/dev/nvidia-caps"}, stdout: "nvidia-cap201\nnvidia-cap202\n"},
		{name: "a container that sees all sees the node", c: plugin, cmd: []string{"ls", "/dev/nvidia0"}, stdout: "/dev/nvidia0\n"},
		{name: "a container without a GPU has no nvidia-smi", c: none, cmd: []string{"nvidia-smi"}, stderr: "holds no GPU", code: 127},
		{name: "the exit code travels", c: pod("p"), cmd: []string{"sh", "-c", "exit 3"}, code: 3},
		{name: "stdin travels", c: pod("p"), cmd: []string{"cat"}, stdin: "one\ntwo\n", stdout: "one\ntwo\n"},
		{name: "a pod on the host's network has its name", c: host, cmd: []string{"hostname"}, stdout: node + "\n"},
		{name: "a terminal gets carriage returns", c: pod("p"), cmd: []string{"hostname"}, tty: true, stdout: "p\r\n"},
		{name: "a shell on a terminal reads what is typed", c: pod("p"), cmd: []string{"bash"}, stdin: "whoami\rexit 5\r", tty: true, stdout: "root\r\n", code: 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := serve(t, &fakeRuntime{cs: []kubelet.Container{tt.c}}, fixed)
			var stdout, stderr bytes.Buffer
			o := remotecommand.StreamOptions{Stdout: &stdout, Tty: tt.tty}
			if tt.stdin != "" {
				o.Stdin = strings.NewReader(tt.stdin)
			}
			if !tt.tty {
				o.Stderr = &stderr
			}
			err := stream(t, cfg, "/exec/default/p/main", url.Values{"command": tt.cmd}, o)
			var exit exitcode.CodeExitError
			if errors.As(err, &exit); exit.Code != tt.code || (err != nil) != (tt.code != 0) {
				t.Errorf("exec %q: %v, want exit code %d", tt.cmd, err, tt.code)
			}
			if !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("exec %q: stdout %q, stderr %q; want %q, %q", tt.cmd, stdout.String(), stderr.String(), tt.stdout, tt.stderr)
			}
		})
	}
}

func TestExecRefused(t *testing.T) {
	ended := pod("p")
	ended.State = kubelet.StateTerminated
	tests := []struct {
		name, path, query string
		status            int
		want              string
	}{
		{"a pod that is not there", "/exec/default/q/main", "?output=1&command=env", http.StatusNotFound, "pod does not exist"},
		{"a container that is not there", "/exec/default/p/other", "?output=1&command=env", http.StatusInternalServerError, `container not found ("other")`},
		{"a container that has ended", "/exec/default/p/main", "?output=1&command=env", http.StatusInternalServerError, `container not found ("main")`},
		{"no stream at all", "/exec/default/p/main", "?command=env", http.StatusBadRequest, "you must specify at least 1 of stdin, stdout, stderr"},
		{"a pod of which nothing runs has no ports", "/portForward/default/p", "", http.StatusInternalServerError, `pod not found ("p_default")`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := get(t.Context(), kubelet.New(&fakeRuntime{cs: []kubelet.Container{ended}}, fixed), node, tt.path+tt.query)
			if w.Code != tt.status || w.Body.String() != tt.want {
				t.Errorf("%s = %d %q, want %d %q", tt.path, w.Code, w.Body.String(), tt.status, tt.want)
			}
		})
	}
}

// seen is a writer that says when text has been written.
type seen struct {
	text string
	buf  bytes.Buffer
	then func()
}

func (s *seen) Write(b []byte) (int, error) {
	s.buf.Write(b)
	if s.then != nil && strings.Contains(s.buf.String(), s.text) {
		s.then()
		s.then = nil
	}
	return len(b), nil
}

func TestCtrlCEndsACommandOnATerminal(t *testing.T) {
	cfg := serve(t, &fakeRuntime{cs: []kubelet.Container{pod("p")}}, fixed)
	stdin, keys := io.Pipe()
	out := &seen{text: "GPU 0", then: func() { go fmt.Fprint(keys, "\x03") }}
	err := stream(t, cfg, "/exec/default/p/main", url.Values{"command": {"watch", "-n", "1", "nvidia-smi", "-L"}},
		remotecommand.StreamOptions{Stdin: stdin, Stdout: out, Tty: true})
	var exit exitcode.CodeExitError
	if !errors.As(err, &exit) || exit.Code != 130 {
		t.Errorf("watch interrupted: %v, want exit code 130", err)
	}
}

func TestAClientThatLeavesEndsItsCommand(t *testing.T) {
	rt := &fakeRuntime{cs: []kubelet.Container{pod("p")}}
	h := kubelet.New(rt, fixed).Handler()
	served := make(chan struct{})
	cfg := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		r.Host = node
		h.ServeHTTP(w, r)
		close(served)
	})
	u, _ := url.Parse(cfg.Host + "/exec/default/p/main?output=1&command=sh&command=-c&command=" + url.QueryEscape("echo go; sleep infinity"))
	e, err := remotecommand.NewSPDYExecutor(cfg, "POST", u)
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	_ = e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &seen{text: "go", then: leave}})
	select {
	case <-served:
	case <-time.After(2 * time.Minute):
		t.Error("the command still runs after its client left")
	}
}

func TestAttachShowsWhatIsPrintedFromNowOn(t *testing.T) {
	c := pod("p")
	c.Lines = []kubelet.Line{{At: epoch, Text: "old"}, {At: epoch.Add(500 * time.Millisecond), Text: "new"}}
	rt := &fakeRuntime{cs: []kubelet.Container{c}}
	var asked atomic.Int64
	cfg := serve(t, rt, func() time.Time { // a second later each time
		return epoch.Add(time.Duration(asked.Add(1)-1) * time.Second)
	})
	out := &seen{text: "new", then: func() { c.State = kubelet.StateTerminated; rt.set(c) }}
	if err := stream(t, cfg, "/attach/default/p/main", url.Values{}, remotecommand.StreamOptions{Stdout: out}); err != nil {
		t.Fatalf("attach: %v", err)
	}
	if got := out.buf.String(); got != "new\n" {
		t.Errorf("attach printed %q, want %q", got, "new\n")
	}
}

func TestAttachToAShellReadsWhatIsTyped(t *testing.T) {
	for _, tt := range []struct {
		name, typed, want string
		tty               bool
	}{
		{"in a terminal", "hostname\rexit 3\r", "p\r\n", true},
		{"through a pipe", "hostname\nexit 3\n", "p\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := pod("p")
			c.Shell, c.RestartCount = true, 2
			rt := &fakeRuntime{cs: []kubelet.Container{c}}
			var out bytes.Buffer
			err := stream(t, serve(t, rt, fixed), "/attach/default/p/main", url.Values{},
				remotecommand.StreamOptions{Stdin: strings.NewReader(tt.typed), Stdout: &out, Tty: tt.tty})
			if err != nil || !strings.Contains(out.String(), tt.want) {
				t.Errorf("attach: %v, %q; want the hostname", err, out.String())
			}
			rt.mu.Lock()
			defer rt.mu.Unlock()
			if want := fmt.Sprintf("%s/%s/main after 2: 3", node, c.UID); rt.exited != want {
				t.Errorf("the container that exited is %q, want %q", rt.exited, want)
			}
		})
	}
}
