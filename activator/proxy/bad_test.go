package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"berth.dev/berth/activator/gate"
)

func TestAHeadOfAMegabyteIsRefused(t *testing.T) {
	r := newRig(t, gate.Limits{})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url("/"), nil)
	req.Header.Set("X-Long", strings.Repeat("x", 1<<20))
	resp, err := client(t, false).Do(req)
	if got := finish(resp, err); got.err == nil && got.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("answered %v, want 431", got)
	}
	if s := r.service.Stats(); s.Held != 0 || s.InFlight != 0 {
		t.Errorf("left: %+v", s)
	}
}

func TestAHeldRequestArrivesAsItWasSent(t *testing.T) {
	r := newRig(t, gate.Limits{})
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// A head with what a proxy could lose, a chunked body with a trailer, and a second request in the same packet.
	fmt.Fprint(c, "PUT /a%2fb?x=1;y HTTP/1.1\r\nHost: iris.shop\r\nX-Two: 1\r\nx-two: 2\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"+
		"5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\nGET /next HTTP/1.1\r\nHost: iris.shop\r\n\r\n")
	r.until("a request is held", held(1))
	_, at := pod(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %v %q %v %v", r.Method, r.RequestURI, r.Host, r.Header["X-Two"], raw, r.Trailer, err)
	}))
	r.service.SetBackends([]string{at})
	in := bufio.NewReader(c)
	for _, want := range []string{`PUT /a%2fb?x=1;y iris.shop [1 2] "hello" map[X-Sum:[7]] <nil>`, `GET /next iris.shop [] "" map[] <nil>`} {
		resp, err := http.ReadResponse(in, nil)                    //nolint:bodyclose // finish closes it
		for err == nil && resp.StatusCode == http.StatusContinue { // of the proxy, and of the pod
			resp, err = http.ReadResponse(in, nil) //nolint:bodyclose // as above; 100 Continue has none
		}
		if got := finish(resp, err); got.text != want {
			t.Errorf("the pod got %v, want %s", got, want)
		}
	}
}

func TestAClientThatClosesItsSideHasGone(t *testing.T) {
	r := newRig(t, gate.Limits{})
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: iris\r\n\r\n")
	r.until("a request is held", held(1))
	_ = c.(*net.TCPConn).CloseWrite()
	r.until("none is held", held(0))
	if rest, err := io.ReadAll(c); len(rest) > 0 {
		t.Errorf("answered %q %v", rest, err)
	}
}

func TestASlowClientIsServedAtItsPace(t *testing.T) {
	r := newRig(t, gate.Limits{})
	_, at := pod(t, echo("pod"))
	r.service.SetBackends([]string{at})
	pr, pw := io.Pipe()
	done := make(chan result, 1)
	go func() { done <- finish(client(t, false).Post(r.url("/"), "text/plain", pr)) }()
	for _, part := range []string{"a", "b", "c"} {
		_, _ = io.WriteString(pw, part)
		if got := post(client(t, false), r.url("/other"), "x"); got.status != 200 { // others do not wait for it
			t.Errorf("during that another is answered %v", got)
		}
	}
	pw.Close()
	if got := <-done; got.text != "pod HTTP/1.1 / abc" {
		t.Errorf("answered %v", got)
	}
}

func TestADrainAnswersWhatIsHeld(t *testing.T) {
	for _, ready := range []bool{true, false} {
		t.Run(fmt.Sprintf("a replica becomes ready: %v", ready), func(t *testing.T) {
			r := newRig(t, gate.Limits{})
			var all []<-chan result
			for i := range 20 {
				all = append(all, start(client(t, i%2 == 1), r.url("/"), "x"))
			}
			r.until("all are held", held(20))
			ctx, cancel := context.WithCancel(t.Context())
			drained := make(chan error, 1)
			go func() { drained <- r.server.Drain(ctx, func() { r.service.Close("the activator is restarted") }) }()
			for { // until it listens no more
				c, err := net.Dial("tcp", r.address)
				if err != nil {
					break
				}
				c.Close()
			}
			want, says := 503, "the activator is restarted"
			if ready {
				_, at := pod(t, echo("pod"))
				r.service.SetBackends([]string{at})
				want, says = 200, "pod HTTP/"
			} else {
				cancel()
			}
			for _, done := range all {
				if got := <-done; got.status != want || !strings.Contains(got.text, says) {
					t.Errorf("answered %v, want %d with %q", got, want, says)
				}
			}
			if err := <-drained; err != nil {
				t.Errorf("drain: %v", err)
			}
			cancel()
		})
	}
}

func TestConnectionsOfTheProcessAreServedToo(t *testing.T) {
	r := newRig(t, gate.Limits{})
	ours, theirs := net.Pipe()
	r.server.ServeConn(theirs, r.service)
	var sent sync.WaitGroup
	sent.Go(func() { fmt.Fprint(ours, "GET /x HTTP/1.1\r\nHost: iris\r\n\r\n") })
	r.until("a request is held", held(1))
	sent.Wait()
	_, at := pod(t, echo("pod"))
	r.service.SetBackends([]string{at})
	resp, err := http.ReadResponse(bufio.NewReader(ours), nil)
	if got := finish(resp, err); got.text != "pod HTTP/1.1 /x " {
		t.Errorf("answered %v", got)
	}
	ours.Close()
	r.until("nothing is left", func(s gate.Stats) bool { return s.InFlight == 0 })
}

func TestAServerThatNeverBecomesReadyIsSaid(t *testing.T) {
	r := newRig(t, gate.Limits{Wait: 50 * time.Millisecond})
	r.service.SetWhy("its replica loads a model of 40 GB")
	got := post(client(t, false), r.url("/"), "x")
	if want := "InferenceService shop/iris cannot answer: the request was held for 50ms, the longest that may be; its replica loads a model of 40 GB\n"; got.text != want {
		t.Errorf("answered %v, want %q", got, want)
	}
}
