package proxy_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth.dev/berth/activator/gate"
	"berth.dev/berth/test/soak"
)

// storm is a service whose pods come and go under many requests, each with a number.
// Its book is kept by the pods: how often each number was answered, and by which pod.
type storm struct {
	*rig
	mu       sync.Mutex
	answered map[string]int
	pods     []*stormPod
	names    int
	killed   atomic.Int32
}

// stormPod is one pod of a storm.
type stormPod struct {
	server  *httptest.Server
	address string
	name    string
	killed  atomic.Bool
}

// add starts a pod that takes a few milliseconds for each request.
func (s *storm) add() {
	s.names++
	p := &stormPod{name: fmt.Sprint("pod-", s.names)}
	p.server, p.address = pod(s.t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.answered[string(raw)]++
		s.mu.Unlock()
		select {
		case <-time.After(time.Duration(len(raw)) * time.Millisecond):
			fmt.Fprint(w, p.name, " ", string(raw))
		case <-r.Context().Done():
		}
	}))
	s.pods = append(s.pods, p)
}

// scale makes n pods be there, and takes those that leave out before they end.
func (s *storm) scale(n int) {
	for len(s.pods) < n {
		s.add()
	}
	leaving := s.pods[n:]
	s.pods = s.pods[:n]
	s.publish()
	for _, p := range leaving {
		go p.server.Close() // which waits for its requests, as a pod that is deleted does
	}
}

// kill ends a pod with its requests, and another takes its place.
func (s *storm) kill(i int) {
	p := s.pods[i]
	s.killed.Add(1)
	p.killed.Store(true)
	p.server.Listener.Close()
	p.server.CloseClientConnections()
	s.pods = append(s.pods[:i], s.pods[i+1:]...)
	s.add()
	s.publish()
}

func (s *storm) publish() {
	var all []string
	for _, p := range s.pods {
		all = append(all, p.address)
	}
	s.service.SetBackends(all)
}

// TestAStormOfRequestsOverCyclesFromZeroAndBack keeps many requests in flight while pods
// come, go, and are killed. Each request is answered once, by one pod that had it once, or
// by the proxy with the reason; and no more are cut off by kills than were in flight then.
// An answer is broken off if a pod is killed between its head and its body.
func TestAStormOfRequestsOverCyclesFromZeroAndBack(t *testing.T) {
	clients, cycles := soak.Pick(200, 1000), soak.Pick(3, 6)
	s := &storm{rig: newRig(t, gate.Limits{Held: clients, Wait: 30 * time.Second}), answered: map[string]int{}}
	h1, h2 := client(t, false), client(t, true)
	ctx, stop := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	var fine, cut, broken atomic.Int32
	for i := range clients {
		requests.Go(func() {
			c := h1
			if i%4 == 3 {
				c = h2
			}
			for n := 0; ctx.Err() == nil; n++ {
				number := fmt.Sprintf("%d-%d", i, n)
				got := post(c, s.url("/"), number)
				switch {
				case got.err != nil:
					broken.Add(1)
				case got.status == 200 && strings.HasSuffix(got.text, " "+number):
					fine.Add(1)
				case got.status == 502 && strings.HasPrefix(got.text, "InferenceService shop/iris: the replica that had the request"):
					cut.Add(1)
				default:
					t.Errorf("request %s is answered %v", number, got)
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range cycles {
		s.until("all are held", held(clients))
		s.scale(1)
		s.until("none is held", held(0))
		s.scale(3)
		for range 3 {
			before := fine.Load()
			for fine.Load() < before+int32(clients) {
				time.Sleep(time.Millisecond)
			}
			s.kill(rng.IntN(3))
		}
		s.scale(0)
	}
	s.scale(2)
	stop()
	requests.Wait()
	for number, times := range s.answered {
		if times != 1 {
			t.Errorf("request %s reached pods %d times", number, times)
		}
	}
	most := s.killed.Load() * int32(clients)
	t.Logf("%d answered, %d cut off by %d kills, %d broken off", fine.Load(), cut.Load(), s.killed.Load(), broken.Load())
	if all := cut.Load() + broken.Load(); all > most {
		t.Errorf("%d were cut off, want at most %d", all, most)
	}
	s.until("nothing is left", func(g gate.Stats) bool { return g.Held == 0 && g.InFlight == 0 })
}
