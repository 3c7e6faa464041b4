package controlplane

import (
	"net/http"
	"strings"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericserver "k8s.io/apiserver/pkg/server"

	"berth.dev/berth/activator"
)

// serviceProxy leads requests that the API server proxies to a Service of an
// InferenceService without ready pods to the activator. Upstream's proxy follows
// Endpoints, and of these only pods, so it refuses such requests with 503.
type serviceProxy struct{ set atomic.Pointer[activator.Set] }

// into puts it behind the filters that authenticate and authorize.
func (p *serviceProxy) into(cfg *genericserver.Config) {
	build := cfg.BuildHandlerChainFunc
	cfg.BuildHandlerChainFunc = func(h http.Handler, c *genericserver.Config) http.Handler { return build(p.before(h), c) }
}

func (p *serviceProxy) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		set := p.set.Load()
		info, ok := request.RequestInfoFrom(r.Context())
		if set == nil || !ok || info.Resource != "services" || info.Subresource != "proxy" || info.APIGroup != "" {
			next.ServeHTTP(w, r)
			return
		}
		_, name, port, valid := utilnet.SplitSchemeNamePort(info.Name)
		if h := set.Held(info.Namespace, name, port); valid && h != nil {
			h.ServeHTTP(w, behindProxy(r))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// behindProxy returns a request to /api/v1/namespaces/NS/services/NAME/proxy/PATH as the
// pod gets it: of HTTP/1.1, to PATH.
func behindProxy(r *http.Request) *http.Request {
	out := r.Clone(r.Context())
	_, out.URL.Path, _ = strings.Cut(out.URL.Path, "/proxy")
	if out.URL.Path == "" {
		out.URL.Path = "/"
	}
	out.URL.RawPath = ""
	out.RequestURI = out.URL.RequestURI()
	out.Proto, out.ProtoMajor, out.ProtoMinor = "HTTP/1.1", 1, 1
	out.Header.Del("Authorization")
	return out
}
