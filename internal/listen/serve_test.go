package listen_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/internal/listen"
)

// serving answers requests at /slow when the test lets them, others at once.
func serving(t *testing.T, patience time.Duration) (url string, begun chan struct{}, goOn chan struct{}, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	begun, goOn = make(chan struct{}), make(chan struct{})
	stop = listen.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(begun)
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
		}
		fmt.Fprint(w, "ok")
	}), patience)
	return "http://" + l.Addr().String(), begun, goOn, stop
}

// get returns what is answered, or what went wrong.
func get(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return "error"
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "error"
	}
	return string(text)
}

func TestServeAnswersUntilItIsStopped(t *testing.T) {
	url, _, _, stop := serving(t, time.Minute)
	if got := get(url); got != "ok" {
		t.Errorf("GET gave %q", got)
	}
	stop()
	if got := get(url); got == "ok" { // another process may have its port by now
		t.Errorf("GET gave %q after stop", got)
	}
}

func TestStopLetsARequestUnderWayEnd(t *testing.T) {
	url, begun, goOn, stop := serving(t, time.Minute)
	answer := make(chan string)
	go func() { answer <- get(url + "/slow") }()
	<-begun
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	for get(url) == "ok" { // until stop has begun
	}
	close(goOn)
	if got := <-answer; got != "ok" {
		t.Errorf("the request under way got %q", got)
	}
	<-stopped
}

func TestStopCutsOffARequestThatTakesTooLong(t *testing.T) {
	url, begun, _, stop := serving(t, time.Millisecond)
	answer := make(chan string)
	go func() { answer <- get(url + "/slow") }()
	<-begun
	stop()
	if got := <-answer; got != "error" {
		t.Errorf("the request got %q", got)
	}
}

func TestServeIsForThisMachineAlone(t *testing.T) {
	url, _, _, stop := serving(t, time.Minute)
	defer stop()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"127.0.0.1:" + port: 200, "localhost:9": 200, "LOCALHOST": 200, "[::1]:" + port: 200, "127.1.2.3": 200,
		"evil.example:" + port: 403, "127.0.0.1.evil.example": 403, "10.0.0.1": 403,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("a request for %s is answered with %d, want %d", host, resp.StatusCode, want)
		}
	}
}
