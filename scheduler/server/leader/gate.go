package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// errNotLeading is what a write gets that may not be sent.
var errNotLeading = errors.New("this scheduler does not lead now, or could not renew its lease: nothing was sent")

// Gate stands between the scheduler and the API server, and lets writes pass only
// while this process leads. Leadership ends in two ways that the scheduler itself
// would not notice in time: the process stood still for longer than its lease, and
// it is told to stop while bindings are on their way. After Close returns nothing
// of this process can reach the API server any more, so that the next leader sees
// all that this one has bound. Reads always pass, and dry runs, which change nothing.
//
// What has passed may still be held up on its way for longer than the lease, so bindings name who sends them: see Sign.
type Gate struct {
	mu        sync.Mutex
	leads     func() bool // nil until open
	signature string
	shut      bool
	inside    int           // writes without an answer
	empty     chan struct{} // closed when shut and nothing is inside
}

// NewGate returns a Gate that is closed: it lets reads pass alone.
func NewGate() *Gate { return &Gate{empty: make(chan struct{})} }

// Open lets writes pass while leads returns true. leads must be quick.
func (g *Gate) Open(leads func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leads = leads
}

// Sign has bindings name their sender by this field manager, by which the API server refuses those of a leader before;
// "" is that they name none.
func (g *Gate) Sign(signature string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.signature = signature
}

// signed is a request with the signature, if it is a binding.
func (g *Gate) signed(req *http.Request) *http.Request {
	g.mu.Lock()
	signature := g.signature
	g.mu.Unlock()
	if signature == "" || req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/binding") {
		return req
	}
	out := req.Clone(req.Context())
	q := out.URL.Query()
	q.Set("fieldManager", signature)
	out.URL.RawQuery = q.Encode()
	return out
}

// Leads reports whether a write would pass now.
func (g *Gate) Leads() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.shut && g.leads != nil && g.leads()
}

// Close lets no write pass any more, for good, and waits until those that did
// have been answered, or ctx ends. Writes that come later wait for the end of
// their own context, so that nothing is made of their refusal. The result says
// whether all were answered.
func (g *Gate) Close(ctx context.Context) bool {
	g.mu.Lock()
	if !g.shut {
		g.shut = true
		if g.inside == 0 {
			close(g.empty)
		}
	}
	g.mu.Unlock()
	select {
	case <-g.empty:
	case <-ctx.Done():
	}
	select { // of a process that stood still both may be true by now
	case <-g.empty:
		return true
	default:
		return false
	}
}

// enter asks for one write.
func (g *Gate) enter(ctx context.Context) error {
	g.mu.Lock()
	shut := g.shut
	ok := !shut && g.leads != nil && g.leads()
	if ok {
		g.inside++
	}
	g.mu.Unlock()
	switch {
	case ok:
		return nil
	case shut:
		<-ctx.Done()
		return fmt.Errorf("%w (%w)", errNotLeading, context.Cause(ctx))
	}
	return errNotLeading
}

// leave ends one write that entered.
func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.shut {
		close(g.empty)
	}
}

// Wrap puts the gate before next; it is a transport.WrapperFunc.
func (g *Gate) Wrap(next http.RoundTripper) http.RoundTripper { return &gated{g, next} }

// gated is an http.RoundTripper behind a gate.
type gated struct {
	gate *Gate
	next http.RoundTripper
}

var _ utilnet.RoundTripperWrapper = &gated{}

// WrappedRoundTripper implements utilnet.RoundTripperWrapper.
func (t *gated) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *gated) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return t.next.RoundTrip(req)
	}
	req = t.gate.signed(req)
	if req.URL.Query().Get("dryRun") != "" {
		return t.next.RoundTrip(req)
	}
	if err := t.gate.enter(req.Context()); err != nil {
		if req.Body != nil {
			err = errors.Join(err, req.Body.Close()) // a RoundTripper closes it also on errors
		}
		return nil, err
	}
	defer t.gate.leave()
	return t.next.RoundTrip(req)
}
