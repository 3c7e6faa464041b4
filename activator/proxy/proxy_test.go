package proxy_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth.dev/berth/activator/gate"
)

func TestARequestIsHeldUntilAReplicaIsReady(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%v", http2), func(t *testing.T) {
			r := newRig(t, gate.Limits{})
			done := start(client(t, http2), r.url("/v1/models/iris:predict?a;b=%zz"), "[1]")
			<-r.woken
			r.until("one is held", held(1))
			_, at := pod(t, echo("pod"))
			r.service.SetBackends([]string{at})
			want := "pod HTTP/1.1 /v1/models/iris:predict?a;b=%zz [1]"
			if http2 {
				want = strings.Replace(want, "1.1", "2.0", 1)
			}
			if got := <-done; got.status != 200 || got.text != want {
				t.Errorf("answered %v, want %s", got, want)
			}
		})
	}
}

func TestHeldRequestsGoInTheOrderOfTheirArrival(t *testing.T) {
	r := newRig(t, gate.Limits{PerBackend: 1})
	c := client(t, false)
	var mu sync.Mutex
	var order []string
	var all []<-chan result
	for i := range 20 {
		all = append(all, start(c, r.url("/"), strconv.Itoa(i)))
		r.until("the next is held", held(i+1))
	}
	_, at := pod(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		order = append(order, string(raw))
	}))
	r.service.SetBackends([]string{at})
	for _, done := range all {
		if got := <-done; got.status != 200 {
			t.Errorf("answered %v", got)
		}
	}
	if got := strings.Join(order, " "); got != "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19" {
		t.Errorf("the pod got them in the order %s", got)
	}
}

func TestWhatIsTooMuchIsRefusedWithTheReason(t *testing.T) {
	tests := []struct {
		name   string
		limits gate.Limits
		says   string
	}{
		{"as many are held as may be", gate.Limits{Held: 1}, "1 requests are held for it, the most that may be; the replica waits for a GPU"},
		{"as many bytes are held as may be", gate.Limits{Bytes: 10}, "requests of 10 bytes are held for it, the most that may be; the replica waits for a GPU"},
		{"as long as may be", gate.Limits{Wait: 30 * time.Millisecond}, "the request was held for 30ms, the longest that may be; the replica waits for a GPU"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.limits)
			r.service.SetWhy("the replica waits for a GPU")
			if tt.limits.Held > 0 {
				_ = start(client(t, false), r.url("/"), "first")
				r.until("one is held", held(1))
			}
			got := post(client(t, false), r.url("/"), "x")
			want := "InferenceService shop/iris cannot answer: " + tt.says + "\n"
			if got.status != 503 || got.text != want || got.header.Get("Retry-After") != "5" {
				t.Errorf("answered %v and Retry-After %q, want 503 %q", got, got.header.Get("Retry-After"), want)
			}
		})
	}
}

func TestAClientThatGoesAwayFreesItsPlace(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for _, body := range []string{"", "with a body", strings.Repeat("long ", 1<<20)} {
			if len(body) > 4096 && !http2 {
				continue // what is in the way of its going away is not read: see the next test
			}
			t.Run(fmt.Sprintf("http2=%v, body of %d bytes", http2, len(body)), func(t *testing.T) {
				r := newRig(t, gate.Limits{})
				ctx, cancel := context.WithCancel(t.Context())
				req, _ := http.NewRequestWithContext(ctx, http.MethodPost, r.url("/"), strings.NewReader(body))
				ended := make(chan error, 1)
				go func() { ended <- finish(client(t, http2).Do(req)).err }()
				r.until("one is held", held(1))
				cancel()
				if err := <-ended; err == nil {
					t.Error("the request was answered")
				}
				r.until("none is held", held(0))
			})
		}
	}
}

func TestAClientThatGoesAwayDuringALongBodyKeepsItsPlaceForATime(t *testing.T) {
	r := newRig(t, gate.Limits{Wait: time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, r.url("/"), io.LimitReader(sleepy{}, 64<<20))
	ended := make(chan error, 1)
	go func() { ended <- finish(client(t, false).Do(req)).err }()
	r.until("one is held", held(1))
	cancel()
	t.Logf("the request has ended: %v", <-ended)
	r.until("none is held", held(0))
}

func TestAServiceThatIsDeletedRefusesWhatIsHeld(t *testing.T) {
	r := newRig(t, gate.Limits{})
	done := start(client(t, false), r.url("/"), "x")
	r.until("one is held", held(1))
	r.service.Close("the service was deleted")
	if got := <-done; got.status != 503 || !strings.Contains(got.text, "shop/iris cannot answer: the service was deleted") {
		t.Errorf("answered %v", got)
	}
}

func TestAReplicaThatRefusesIsTriedAgainAndAnother(t *testing.T) {
	r := newRig(t, gate.Limits{})
	gone, at := pod(t, echo("gone"))
	gone.Close()
	r.service.SetBackends([]string{at})
	done := start(client(t, false), r.url("/"), "[1]")
	r.until("the request is held again", held(1))
	_, other := pod(t, echo("other"))
	r.service.SetBackends([]string{at, other})
	if got := <-done; got.status != 200 || got.text != "other HTTP/1.1 / [1]" {
		t.Errorf("answered %v", got)
	}
}

func TestAReplicaThatDiesOverARequestIsNotAskedTwice(t *testing.T) {
	r := newRig(t, gate.Limits{})
	asked := make(chan struct{}, 10)
	_, at := pod(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		asked <- struct{}{}
		panic(http.ErrAbortHandler)
	}))
	r.service.SetBackends([]string{at})
	got := post(client(t, false), r.url("/"), "[1]")
	if got.status != 502 || !strings.Contains(got.text, "InferenceService shop/iris: the replica that had the request did not answer it: ") {
		t.Errorf("answered %v", got)
	}
	if len(asked) != 1 {
		t.Errorf("asked %d times", len(asked))
	}
}

func TestAnAnswerThatBreaksOffIsBrokenOff(t *testing.T) {
	r := newRig(t, gate.Limits{})
	_, at := pod(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	r.service.SetBackends([]string{at})
	if got := post(client(t, false), r.url("/"), "x"); got.err == nil || got.status != 200 || got.text != "half" {
		t.Errorf("answered %v, want half of it and an error", got)
	}
	r.until("nothing is left", func(s gate.Stats) bool { return s.InFlight == 0 && s.Held == 0 })
}

func TestGRPCHasItsTrailersAndItsRefusals(t *testing.T) {
	r := newRig(t, gate.Limits{Wait: 500 * time.Millisecond})
	ask := func() (result, http.Header) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url("/inference.GRPCInferenceService/ModelInfer"), strings.NewReader("\x00"))
		req.Header.Set("Content-Type", "application/grpc")
		req.Header.Set("Te", "trailers")
		resp, err := client(t, true).Do(req)
		got := finish(resp, err)
		if err != nil {
			t.Fatal(err)
		}
		return got, resp.Trailer
	}
	if got, _ := ask(); got.status != 200 || got.header.Get("Grpc-Status") != "14" || !strings.Contains(got.header.Get("Grpc-Message"), "held for 500ms") {
		t.Errorf("without a replica: %v %v", got, got.header)
	}
	_, at := pod(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		fmt.Fprint(w, r.Proto, " te=", r.Header.Get("Te"))
		w.Header().Set("Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", "fine")
	}))
	r.service.SetBackends([]string{at})
	got, trailer := ask()
	if got.text != "HTTP/2.0 te=trailers" || trailer.Get("Grpc-Status") != "0" || trailer.Get("Grpc-Message") != "fine" {
		t.Errorf("answered %v with trailers %v", got, trailer)
	}
}

func TestStreamsPassAsTheyCome(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		r := newRig(t, gate.Limits{})
		next := make(chan struct{})
		_, at := pod(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n", i)
				_ = http.NewResponseController(w).Flush()
				<-next
			}
		}))
		r.service.SetBackends([]string{at})
		resp, err := client(t, http2).Get(r.url("/"))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		for i := range 3 { // the pod does not go on before the client has this line
			if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", i) {
				t.Fatalf("line %d is %q %v", i, lines.Text(), lines.Err())
			}
			next <- struct{}{}
		}
		resp.Body.Close()
	}
}

func TestABodyOfAnySizePassesWithoutBeingKept(t *testing.T) {
	const size = 64 << 20
	for _, http2 := range []bool{false, true} {
		r := newRig(t, gate.Limits{Bytes: 4096})
		body := func() io.Reader { return io.LimitReader(sleepy{}, size) }
		sum := sha256.New()
		_, _ = io.Copy(sum, body())
		done := make(chan result, 1)
		go func() { done <- finish(client(t, http2).Post(r.url("/"), "application/octet-stream", body())) }()
		r.until("a request is held", held(1))
		_, at := pod(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got := sha256.New()
			n, err := io.Copy(got, r.Body)
			fmt.Fprintf(w, "%d %x %v", n, got.Sum(nil), err)
		}))
		r.service.SetBackends([]string{at})
		if got, want := <-done, fmt.Sprintf("%d %x <nil>", size, sum.Sum(nil)); got.text != want {
			t.Errorf("the pod read %v, want %s", got, want)
		}
	}
}

// sleepy reads as bytes that are all the same.
type sleepy struct{}

func (sleepy) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'z'
	}
	return len(p), nil
}

func TestAWebsocketIsHeldAndThenJoined(t *testing.T) {
	r := newRig(t, gate.Limits{})
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /chat HTTP/1.1\r\nHost: iris\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r.until("a request is held", held(1))
	_, at := pod(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		in, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer in.Close()
		fmt.Fprint(in, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, _ := rw.ReadString('\n')
		fmt.Fprint(in, "you said ", line)
	}))
	r.service.SetBackends([]string{at})
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil) //nolint:bodyclose // lines of the websocket follow the head
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("answered %v %v", resp, err)
	}
	r.until("the connection is in flight", func(s gate.Stats) bool { return s.InFlight == 1 })
	fmt.Fprint(c, "hello\n")
	if line, _ := in.ReadString('\n'); line != "you said hello\n" {
		t.Errorf("the pod answers %q", line)
	}
	c.Close()
	r.until("the connection has ended", func(s gate.Stats) bool { return s.InFlight == 0 })
}
