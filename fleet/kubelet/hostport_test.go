package kubelet_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/transport/spdy"

	"berth.dev/berth/fleet/kubelet"
)

// hosted is a container of pod nb that a process at a port of this machine backs.
func hosted(port int, declared ...int) kubelet.Container {
	c := pod("nb")
	c.Hosted, c.HostPort, c.Ports = true, port, declared
	return c
}

func TestHostAddr(t *testing.T) {
	sidecar := pod("nb")
	sidecar.Name, sidecar.Ports = "sidecar", []int{9000}
	waiting := hosted(4711, 8888)
	waiting.State = kubelet.StateWaiting
	more := hosted(4711, 8888)
	more.Listens = func(port int) bool { return port == 20001 || port == 9000 }
	tests := []struct {
		name string
		cs   []kubelet.Container
		port int
		want string
	}{
		{"the first declared port is the process's", []kubelet.Container{hosted(4711, 8888, 8889)}, 8888, "127.0.0.1:4711"},
		{"others are nobody's", []kubelet.Container{hosted(4711, 8888, 8889)}, 8889, ""},
		{"without declared ports every port is", []kubelet.Container{hosted(4711)}, 1234, "127.0.0.1:4711"},
		{"but for those of other containers", []kubelet.Container{hosted(4711), sidecar}, 9000, ""},
		{"a port where the process listens too is its own", []kubelet.Container{more}, 20001, "127.0.0.1:20001"},
		{"one where it does not is closed", []kubelet.Container{more}, 20002, ""},
		{"and one that another container declares is not its own", []kubelet.Container{more, sidecar}, 9000, ""},
		{"a process that is not there yet has none", []kubelet.Container{hosted(0, 8888)}, 8888, ""},
		{"a container that waits has none", []kubelet.Container{waiting}, 8888, ""},
		{"a simulated container has none", []kubelet.Container{sidecar}, 9000, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := kubelet.New(&fakeRuntime{cs: tt.cs}, fixed)
			got, ok := s.HostAddr(node, "default", "nb", tt.port)
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("HostAddr(%d) = %q %v, want %q", tt.port, got, ok, tt.want)
			}
			for _, c := range tt.cs {
				if c.Hosted && s.PodHandler(node, "default", "nb", tt.port) != nil && tt.port != 9000 {
					t.Error("a page says that a container is simulated, and a process backs it")
				}
			}
		})
	}
}

// upgrade answers a request to take the connection over, and then says back, in
// capitals, each line it is told: what WebSockets need of what lies between.
func upgrade(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		for {
			line, err := rw.ReadString('\n')
			fmt.Fprint(conn, strings.ToUpper(line))
			if err != nil {
				return // the client has said all, and gets what is left
			}
		}
	})}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(srv.Close(), <-ended); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

func TestPortForwardReachesAProcess(t *testing.T) {
	cfg := serve(t, &fakeRuntime{cs: []kubelet.Container{hosted(upgrade(t), 8888)}}, fixed)
	rt, upgrader, err := spdy.RoundTripperFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(cfg.Host + "/portForward/default/nb")
	port, stop, done := forward(t, spdy.NewDialer(upgrader, &http.Client{Transport: rt}, "POST", u), "8888")
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil) //nolint:bodyclose // after a 101 the connection is the body
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the answer is %v, %v", res, err)
	}
	for _, said := range []string{"one\n", "two\n"} {
		fmt.Fprint(conn, said)
		if got, err := r.ReadString('\n'); err != nil || got != strings.ToUpper(said) {
			t.Errorf("said %q, heard %q, %v", said, got, err)
		}
	}
	fmt.Fprint(conn, "the last")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(r); err != nil || string(rest) != "THE LAST" {
		t.Errorf("after our end came %q, %v", rest, err)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Errorf("port-forward ended with %v", err)
	}
}
