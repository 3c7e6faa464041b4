package leader

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slow answers each request when it is told to, and counts those it was sent.
type slow struct {
	sent   atomic.Int32
	answer chan struct{}
}

func (s *slow) RoundTrip(*http.Request) (*http.Response, error) {
	s.sent.Add(1)
	<-s.answer
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func asks(ctx context.Context, method string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, method, "https://cluster.test/api", io.NopCloser(strings.NewReader("x")))
	if err != nil {
		panic(err)
	}
	return req
}

func TestOnlyTheLeaderWrites(t *testing.T) {
	api := &slow{answer: make(chan struct{})}
	close(api.answer)
	g := NewGate()
	client := g.Wrap(api)
	try := func(method string) error {
		res, err := client.RoundTrip(asks(t.Context(), method))
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	if err := try(http.MethodPost); !errors.Is(err, errNotLeading) {
		t.Errorf("before it leads a write gives %v, want %v", err, errNotLeading)
	}
	if err := try(http.MethodGet); err != nil {
		t.Errorf("before it leads a read gives %v", err)
	}
	leads := true
	g.Open(func() bool { return leads })
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if err := try(method); err != nil {
			t.Errorf("while it leads %s gives %v", method, err)
		}
	}
	leads = false
	if err := try(http.MethodPatch); !errors.Is(err, errNotLeading) {
		t.Errorf("with a lease that was not renewed a write gives %v, want %v", err, errNotLeading)
	}
	if got := api.sent.Load(); got != 5 {
		t.Errorf("%d requests were sent, want 5", got)
	}
}

// sent notes the address of the last request.
type sent struct{ to string }

func (s *sent) RoundTrip(req *http.Request) (*http.Response, error) {
	s.to = req.URL.RequestURI()
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestBindingsNameTheirSender(t *testing.T) {
	api := &sent{}
	g := NewGate()
	client := g.Wrap(api)
	for _, tt := range []struct{ name, signature, method, asks, sends string }{
		{"a binding", "s/host_1", http.MethodPost, "/api/v1/namespaces/n/pods/p/binding", "/api/v1/namespaces/n/pods/p/binding?fieldManager=s%2Fhost_1"},
		{"a dry run of one, though it does not lead", "s/host_1", http.MethodPost, "/api/v1/namespaces/n/pods/p/binding?dryRun=All", "/api/v1/namespaces/n/pods/p/binding?dryRun=All&fieldManager=s%2Fhost_1"},
		{"without an election", "", http.MethodPost, "/api/v1/namespaces/n/pods/p/binding", "/api/v1/namespaces/n/pods/p/binding"},
		{"a pod of that name", "s/host_1", http.MethodDelete, "/api/v1/namespaces/n/pods/binding", "/api/v1/namespaces/n/pods/binding"},
		{"another write", "s/host_1", http.MethodPatch, "/api/v1/namespaces/n/pods/p/status", "/api/v1/namespaces/n/pods/p/status"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g.Sign(tt.signature)
			if !strings.Contains(tt.asks, "dryRun") {
				g.Open(func() bool { return true })
				defer g.Open(nil)
			}
			req, err := http.NewRequestWithContext(t.Context(), tt.method, "https://cluster.test"+tt.asks, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := res.Body.Close(); err != nil {
				t.Error(err)
			}
			if api.to != tt.sends || req.URL.RequestURI() != tt.asks {
				t.Errorf("sent to %s, want %s; the caller's own is %s", api.to, tt.sends, req.URL.RequestURI())
			}
		})
	}
}

func TestClosingWaitsForWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &slow{answer: make(chan struct{})}
		g := NewGate()
		g.Open(func() bool { return true })
		client := g.Wrap(api)
		first := make(chan error, 1)
		go func() {
			_, err := client.RoundTrip(asks(t.Context(), http.MethodPost)) //nolint:bodyclose // an answer of the test has none
			first <- err
		}()
		synctest.Wait()
		closed := make(chan bool, 1)
		go func() { closed <- g.Close(t.Context()) }()
		synctest.Wait()
		// A write that comes now is not sent, and not refused before its own end.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began, second := time.Now(), make(chan error, 1)
		go func() {
			_, err := client.RoundTrip(asks(ctx, http.MethodPost)) //nolint:bodyclose // as above
			second <- err
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("closed while a write was on its way")
		default:
		}
		api.answer <- struct{}{}
		if err := <-first; err != nil {
			t.Errorf("the write that was on its way gives %v", err)
		}
		if !<-closed {
			t.Error("close says that not every write was answered")
		}
		if err := <-second; !errors.Is(err, errNotLeading) || time.Since(began) != time.Minute {
			t.Errorf("a late write gives %v after %s, want %v after a minute", err, time.Since(began), errNotLeading)
		}
		if got := api.sent.Load(); got != 1 {
			t.Errorf("%d requests were sent, want 1", got)
		}
	})
}

func TestClosingGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &slow{answer: make(chan struct{})}
		g := NewGate()
		g.Open(func() bool { return true })
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = g.Wrap(api).RoundTrip(asks(t.Context(), http.MethodPost)) //nolint:bodyclose // an answer of the test has none
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if g.Close(ctx) {
			t.Error("close says that every write was answered, and one was not")
		}
		api.answer <- struct{}{}
		<-done
		if !g.Close(t.Context()) {
			t.Error("close says that a write is on its way, and none is")
		}
	})
}

// TestClosingTooLateSaysWhatIsTrue: every write was answered, and the time to wait for
// that is over when somebody looks.
func TestClosingTooLateSaysWhatIsTrue(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for range 100 {
		g := NewGate()
		g.Open(func() bool { return true })
		if !g.Close(ended) {
			t.Fatal("close says that a write is on its way, and none is")
		}
	}
}
