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
// Its book is kept by the pods: which of them had a request, each time that one did.
type storm struct {
	*rig
	mu    sync.Mutex
	had   map[string][]*stormPod // by number
	lost  map[string]string      // requests that were cut off, by number, with how
	pods  []*stormPod
	names int
	kills int
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
		s.had[string(raw)] = append(s.had[string(raw)], p)
		s.mu.Unlock()
		select {
		case <-time.After(time.Duration(len(raw)) * time.Millisecond):
			fmt.Fprint(w, p.name, " ", string(raw))
		case <-r.Context().Done():
		}
	}))
	s.pods = append(s.pods, p)
}

// scale makes n pods be there. Those that leave go on with what they have, as pods do in
// their grace period, which is longer than this test.
func (s *storm) scale(n int) {
	for len(s.pods) < n {
		s.add()
	}
	s.pods = s.pods[:n]
	s.publish()
}

// kill ends a pod with its requests, and another takes its place.
func (s *storm) kill(i int) {
	p := s.pods[i]
	s.kills++
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
// come, go, and are killed. Each request is answered once, by the one pod that had it, or cut off
// with the reason. Each one that is cut off was at a pod that was killed or had reached none,
// and an answer breaks off only if such a pod had begun it. A pod has at most one request of each
// client in flight when it is killed, and takes no connection after that: so a kill cuts off at most
// as many as there are clients.
func TestAStormOfRequestsOverCyclesFromZeroAndBack(t *testing.T) {
	clients, cycles := soak.Pick(200, 1000), soak.Pick(3, 6)
	s := &storm{rig: newRig(t, gate.Limits{Held: clients, Wait: 30 * time.Second}), had: map[string][]*stormPod{}, lost: map[string]string{}}
	h1, h2 := client(t, false), client(t, true)
	ctx, stop := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	var fine atomic.Int32
	for i := range clients {
		requests.Go(func() {
			c := h1
			if i%4 == 3 {
				c = h2
			}
			for n := 0; ctx.Err() == nil; n++ {
				number := fmt.Sprintf("%d-%d", i, n)
				if s.ended(number, post(c, s.url("/"), number)) {
					fine.Add(1)
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
			more := fine.Load() + int32(clients)
			s.until("as many are answered as there are clients", func(gate.Stats) bool { return fine.Load() >= more })
			s.kill(rng.IntN(3))
		}
		s.scale(0)
	}
	s.scale(2)
	stop()
	requests.Wait()
	for number, pods := range s.had {
		if len(pods) != 1 {
			t.Errorf("request %s reached pods %d times", number, len(pods))
		}
		if how := s.lost[number]; how != "" && !pods[0].killed.Load() {
			t.Errorf("request %s is cut off (%s) although %s, which had it, was not killed", number, how, pods[0].name)
		}
	}
	t.Logf("%d answered, %d cut off by %d kills", fine.Load(), len(s.lost), s.kills)
	if most := s.kills * clients; len(s.lost) > most {
		t.Errorf("%d were cut off by %d kills, want at most %d", len(s.lost), s.kills, most)
	}
	s.until("nothing is left", func(g gate.Stats) bool { return g.Held == 0 && g.InFlight == 0 })
}

// ended notes how a request has ended, and reports whether a pod has answered it.
func (s *storm) ended(number string, got result) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pods := s.had[number]
	switch {
	case got.err != nil && len(pods) == 1:
		s.lost[number] = "broken off: " + got.err.Error()
	case got.status == http.StatusOK && len(pods) == 1 && got.text == pods[0].name+" "+number:
		return true
	case got.status == http.StatusBadGateway && strings.HasPrefix(got.text, "InferenceService shop/iris: the replica that had the request"):
		s.lost[number] = got.text
	default:
		s.t.Errorf("request %s, which reached %d pods, is answered %v", number, len(pods), got)
	}
	return false
}
