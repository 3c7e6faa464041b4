package server

import (
	"fmt"
	"net/http"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// unservedError says that the API server does not have a resource that the
// scheduler watches.
type unservedError struct{ resource string }

// Error names the resource.
func (e *unservedError) Error() string {
	return fmt.Sprintf("the API server does not serve %s, which the scheduler watches: have it serve that (kube-apiserver's --runtime-config), or upgrade the cluster", e.resource)
}

// lists looks at the answers to the scheduler's lists and watches. Its informers
// ask again and again for a resource that is not there, and wait for it for ever.
type lists struct {
	mu      sync.Mutex
	missing error       // the first *unservedError
	tell    func(error) // nil where nobody waits
}

// told calls tell, once, with an *unservedError when a list or watch has been
// answered with one, also before told was called. With nil it no longer does.
func (l *lists) told(tell func(error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell = tell
	if l.missing != nil && tell != nil {
		tell(l.missing)
	}
}

func (l *lists) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.missing != nil {
		return
	}
	l.missing = err
	if l.tell != nil {
		l.tell(err)
	}
}

// wrap looks at what next answers; it is a transport.WrapperFunc.
func (l *lists) wrap(next http.RoundTripper) http.RoundTripper { return &listed{l, next} }

// listed is an http.RoundTripper whose answers lists sees.
type listed struct {
	lists *lists
	next  http.RoundTripper
}

var _ utilnet.RoundTripperWrapper = &listed{}

// WrappedRoundTripper implements utilnet.RoundTripperWrapper.
func (t *listed) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *listed) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusNotFound {
		return res, err
	}
	paths := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	if info, bad := paths.NewRequestInfo(req); bad == nil && (info.Verb == "list" || info.Verb == "watch") {
		group := info.APIVersion
		if info.APIGroup != "" {
			group = info.APIGroup + "/" + info.APIVersion
		}
		t.lists.note(&unservedError{info.Resource + " of " + group})
	}
	return res, nil
}
