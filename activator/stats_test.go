package activator

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"berth.dev/berth/activator/gate"
	"berth.dev/berth/kube/serving"
)

// TestFiguresAreSaidWhenTheyChange reads the stream as the controllers do: all services, then those that change, a held request
// at once, and a service that is gone.
func TestFiguresAreSaidWhenTheyChange(t *testing.T) {
	s := New(Options{Client: fake.NewClientset(), Log: slog.New(slog.DiscardHandler)})
	for _, name := range []string{"iris", "rest"} {
		if _, err := s.ensure(key{"shop", name, predictor, "http"}, name, 80, 0); err != nil {
			t.Fatal(err)
		}
	}
	tell := newTeller(s)
	server := httptest.NewServer(tell)
	defer server.Close()
	resp, err := http.Get(server.URL + "?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := json.NewDecoder(resp.Body)
	next := func() map[string]*serving.Requests {
		t.Helper()
		for {
			var line serving.Stats
			if err := in.Decode(&line); err != nil {
				t.Fatal(err)
			}
			if !line.Began.Equal(s.began) {
				t.Fatalf("it began at %v, want %v", line.Began, s.began)
			}
			if len(line.Services) > 0 {
				return line.Services
			}
		}
	}
	if all := next(); len(all) != 2 || all["shop/iris"].Held != 0 {
		t.Errorf("the first line has %v", all)
	}
	e := s.find("shop", "iris", "http")
	if _, err := e.service.Hold(1, func(error) {}); err != nil {
		t.Fatal(err)
	}
	if got := <-s.wakes; got != (types.NamespacedName{Namespace: "shop", Name: "iris"}) {
		t.Errorf("woken for %v", got)
	}
	asked := time.Now()
	tell.held()
	if got := next(); len(got) != 1 || got["shop/iris"] == nil || got["shop/iris"].Held != 1 {
		t.Errorf("with a held request it says %v", got)
	}
	t.Logf("said after %v", time.Since(asked))
	s.leave(types.NamespacedName{Namespace: "shop", Name: "rest"}, nil)
	for got := next(); ; got = next() {
		if one, ok := got["shop/rest"]; ok {
			if one != nil {
				t.Errorf("a service that is gone has %+v", one)
			}
			return
		}
	}
}

func TestOneLineWithoutWatch(t *testing.T) {
	s := New(Options{Client: fake.NewClientset(), Log: slog.New(slog.DiscardHandler), Limits: gate.Limits{}})
	w := httptest.NewRecorder()
	newTeller(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/stats", nil))
	if n := strings.Count(w.Body.String(), "\n"); n != 1 {
		t.Errorf("%d lines: %s", n, w.Body)
	}
}

// TestPodsAreReachedByAProxy asks a proxy on a Unix socket for connections, which it refuses to one address.
func TestPodsAreReachedByAProxy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "proxy.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "10.1.2.3:8080" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhello")
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	dial := connectBy(path)
	c, err := dial(context.Background(), "tcp", "10.1.2.3:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if raw, _ := io.ReadAll(c); string(raw) != "hello" {
		t.Errorf("the pod says %q", raw)
	}
	if _, err := dial(context.Background(), "tcp", "10.1.2.4:8080"); err == nil || !strings.Contains(err.Error(), "connect to 10.1.2.4:8080: the proxy answers 502") {
		t.Errorf("the error of a refused connection is %v", err)
	}
}
