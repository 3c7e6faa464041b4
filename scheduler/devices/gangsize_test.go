package devices_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// groups is an API server that has PodGroups of scheduling.x-k8s.io, or not yet.
type groups struct {
	mu      sync.Mutex
	status  int            // of every answer, where it is not 0
	least   map[string]int // minMember by name
	version int
	watches []*io.PipeWriter
}

// RoundTrip implements http.RoundTripper.
func (g *groups) RoundTrip(req *http.Request) (*http.Response, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	answer := func(code int, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: req}, nil
	}
	code := g.status
	if code == 0 && req.URL.Query().Get("sendInitialEvents") != "" {
		code = http.StatusUnprocessableEntity // it can list only: clients then do
	}
	if code != 0 {
		reason := map[int]string{http.StatusNotFound: "NotFound", http.StatusForbidden: "Forbidden", http.StatusUnprocessableEntity: "Invalid"}[code]
		text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q}`, code, reason)
		return answer(code, io.NopCloser(strings.NewReader(text)))
	}
	if req.URL.Query().Get("watch") != "" {
		r, w := io.Pipe()
		g.watches = append(g.watches, w)
		go func() {
			<-req.Context().Done()
			_ = w.CloseWithError(req.Context().Err())
		}()
		return answer(200, r)
	}
	var items []string
	for name, n := range g.least {
		items = append(items, g.object(name, n))
	}
	list := fmt.Sprintf(`{"kind":"PodGroupList","apiVersion":"scheduling.x-k8s.io/v1alpha1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, g.version, strings.Join(items, ","))
	return answer(200, io.NopCloser(strings.NewReader(list)))
}

func (g *groups) object(name string, n int) string {
	return fmt.Sprintf(`{"kind":"PodGroup","apiVersion":"scheduling.x-k8s.io/v1alpha1","metadata":{"name":%q,"namespace":"d","resourceVersion":"%d"},"spec":{"minMember":%d}}`, name, g.version, n)
}

// set adds a PodGroup, and tells those who watch.
func (g *groups) set(name string, n int) {
	g.mu.Lock()
	g.version++
	how := "ADDED"
	if _, had := g.least[name]; had {
		how = "MODIFIED"
	}
	g.least[name] = n
	event, watches := fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", how, g.object(name, n)), g.watches
	g.mu.Unlock()
	for _, w := range watches {
		_, _ = io.WriteString(w, event) // those that have gone do not read
	}
}

func (g *groups) answers(status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status = status
}

func TestPodGroupsSayHowManyPodsAGangHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newRig(t, 4), &groups{status: http.StatusNotFound, least: map[string]int{}, version: 1}
		r.config = &rest.Config{Host: "http://fake.invalid", Transport: g, QPS: -1}
		r.start()
		pods := gangOf("crew", 3, 1, "gpu=1")
		for _, p := range pods {
			p.Annotations, p.Labels = map[string]string{}, map[string]string{"scheduling.x-k8s.io/pod-group": "crew"}
		}
		on := func() (n int) {
			for _, p := range r.pods {
				if p.Spec.NodeName != "" {
					n++
				}
			}
			return n
		}
		object := "gang crew: its size is in PodGroup crew of scheduling.x-k8s.io/v1alpha1, "
		expect := func(bound int, said string) {
			t.Helper()
			r.rests(15 * time.Second)
			if n := on(); n != bound || !strings.HasPrefix(r.said["crew-0"], said) {
				t.Fatalf("%d bound, want %d; said %q, want %q", n, bound, r.said["crew-0"], said)
			}
		}
		r.add(pods[:2]...)
		expect(0, object+"which this cluster does not serve: install it")
		g.answers(http.StatusForbidden)
		expect(0, object+"which the scheduler cannot read: grant it the roles")
		g.answers(0)
		expect(0, object+"and there is none: create it")
		g.set("crew", 3)
		expect(0, "waiting for 1 more pod of gang crew (2 of 3 exist)")
		g.set("crew", 2)
		expect(2, "")
		r.add(pods[2])
		expect(3, "")
	})
}
