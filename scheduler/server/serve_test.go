package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/server/healthz"

	"berth.dev/berth/internal/listen"
)

func TestEndpoints(t *testing.T) {
	var behind error
	ready := healthz.NamedCheck("behind", func(*http.Request) error { return behind })
	l, _, err := listen.On("http://127.0.0.1:0")
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
	if err := l.Close(); !errors.Is(err, net.ErrClosed) { // to dial would find whoever has the port by now
		t.Errorf("it still listens after it was stopped: closing it gives %v", err)
	}
}
