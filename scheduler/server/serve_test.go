package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/server/healthz"
)

func TestListen(t *testing.T) {
	taken, _, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := []struct {
		name, addr  string
		plain, none bool
		says        string // of the error; "" is none
	}{
		{name: "nothing is asked for", addr: "", none: true},
		{name: "with TLS on any address", addr: ":0"},
		{name: "without TLS on this machine", addr: "http://127.0.0.1:0", plain: true},
		{name: "without TLS on its name", addr: "http://localhost:0", plain: true},
		{name: "without TLS on IPv6's loopback address or not at all", addr: "http://[::1", says: "must be a loopback address"},
		{name: "without TLS for others", addr: "http://0.0.0.0:0", says: "must be a loopback address"},
		{name: "without TLS for all", addr: "http://:0", says: "must be a loopback address"},
		{name: "an address that is taken", addr: taken.Addr().String(), says: "address already in use; choose another"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, plain, err := listen(tt.addr)
			if l != nil {
				defer l.Close()
			}
			switch {
			case tt.says != "":
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %v, want one with %q", err, tt.says)
				}
			case err != nil || plain != tt.plain || (l == nil) != tt.none:
				t.Errorf("listener %v, plain %v, error %v", l, plain, err)
			}
		})
	}
}

func TestEndpoints(t *testing.T) {
	var behind error
	ready := healthz.NamedCheck("behind", func(*http.Request) error { return behind })
	l, _, err := listen("http://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, err := serve(l, nil, endpoints(nil, []healthz.HealthChecker{ready}))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string) (int, string) {
		res, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	behind = errors.New("not every object has been seen yet")
	for path, want := range map[string]int{"/healthz": 200, "/livez": 200, "/readyz": 500, "/metrics": 200, "/debug/pprof/heap": 200, "/api": 404} {
		if code, body := ask(path); code != want {
			t.Errorf("%s: %d, want %d:\n%s", path, code, want, body)
		}
	}
	behind = nil
	if code, _ := ask("/readyz"); code != 200 {
		t.Errorf("/readyz: %d when it is ready, want 200", code)
	}
	if _, body := ask("/metrics"); !strings.Contains(body, "go_goroutines") {
		t.Errorf("/metrics lacks the process's own:\n%.500s", body)
	}
	stop()
	if _, err := http.Get("http://" + l.Addr().String() + "/livez"); err == nil {
		t.Error("it answers after it was stopped")
	}
}
