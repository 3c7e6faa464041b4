package proxy_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth.dev/berth/activator/gate"
)

// What came of requests is counted for the revision that had them: statuses of 500 and more, answers that break off, and connections that are
// refused are errors.
func TestWhatCameOfRequestsIsCountedByRevision(t *testing.T) {
	r := newRig(t, gate.Limits{})
	_, fine := pod(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") }))
	for _, tt := range []struct {
		name           string
		canary         http.HandlerFunc
		answers, wrong int
	}{
		{"an answer", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "new") }, 10, 0},
		{"a request that is wrong", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }, 10, 0},
		{"an error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, 10, 10},
		{"an answer that breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "new")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 10, 10},
		{"none at all", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 10, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, other := pod(t, tt.canary)
			r.service.SetSplit([]string{fine}, []string{other}, tt.name, 50)
			for i := range 20 {
				post(http.DefaultClient, r.url("/"), fmt.Sprint(i))
			}
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
				s := r.service.Stats().Split
				if s.Canary.Answers == tt.answers && s.Canary.Errors == tt.wrong && s.Stable.Answers == 10 && s.Stable.Errors == 0 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("of 20 requests, of which the canary had a half, %+v is known", s)
				}
			}
		})
	}
}

// While requests come without a break, canaries come and go, of which each third refuses connections: each request is answered.
func TestNoRequestIsLostWhenACanaryVanishes(t *testing.T) {
	r := newRig(t, gate.Limits{})
	var had, fine atomic.Int32
	_, stable := pod(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fine.Add(1) }))
	_, canary := pod(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { had.Add(1) }))
	gone, refuses := pod(t, http.NotFoundHandler())
	gone.Close()
	r.service.SetBackends([]string{stable})
	done := make(chan struct{})
	var clients sync.WaitGroup
	var lost atomic.Pointer[result]
	c := client(t, false)
	for range 20 {
		clients.Go(func() {
			for n := 0; lost.Load() == nil; n++ {
				select {
				case <-done:
					return
				default:
				}
				if got := post(c, r.url("/"), fmt.Sprint(n)); got.status != http.StatusOK {
					lost.Store(&got)
				}
			}
		})
	}
	more := func(of *atomic.Int32) {
		for was := of.Load(); of.Load() < was+100 && lost.Load() == nil; {
			time.Sleep(time.Millisecond)
		}
	}
	for round := range 10 {
		revision := fmt.Sprint(round)
		r.service.SetSplit([]string{stable}, []string{canary}, revision, 40)
		more(&had)
		if round%3 == 2 {
			r.service.SetSplit([]string{stable}, []string{refuses}, revision, 40)
			more(&fine)
		}
		r.service.SetSplit([]string{stable}, nil, revision, 40)
		more(&fine)
	}
	close(done)
	clients.Wait()
	if got := lost.Load(); got != nil {
		t.Errorf("a request is lost: %+v", got)
	}
}
