package server

import (
	"fmt"
	"net"
	"net/http"
	"time"

	genericfilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	apiserver "k8s.io/apiserver/pkg/server"
	serverfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // requests, work queues and leadership
	"k8s.io/component-base/metrics/prometheus/slis"
	_ "k8s.io/component-base/metrics/prometheus/version" // kubernetes_build_info
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"berth.dev/berth/internal/listen"
)

// endpoints serves metrics, health and profiles, at upstream's paths.
func endpoints(health, ready []healthz.HealthChecker) http.Handler {
	m := mux.NewPathRecorderMux("berth-scheduler")
	healthz.InstallHandler(m, health...)
	healthz.InstallLivezHandler(m, health...)
	healthz.InstallReadyzHandler(m, ready...)
	m.Handle("/metrics", legacyregistry.HandlerWithReset())
	slis.SLIMetricsWithReset{}.Install(m)
	routes.Profiling{}.Install(m)
	return m
}

// secured asks the API server who a caller is and what they may, but for health.
func secured(handler http.Handler, cc *schedulerconfig.CompletedConfig) http.Handler {
	info := &request.RequestInfoFactory{}
	handler = genericfilters.WithAuthorization(handler, cc.Authorization.Authorizer, scheme.Codecs)
	handler = genericfilters.WithAuthentication(handler, cc.Authentication.Authenticator, genericfilters.Unauthorized(scheme.Codecs), nil, nil)
	handler = genericfilters.WithRequestInfo(handler, info)
	handler = genericfilters.WithCacheControl(handler)
	return serverfilters.WithPanicRecovery(handler, info)
}

// servingPatience is how long requests under way may take when the server stops.
const servingPatience = 2 * time.Second

// serve serves handler on l until stop is called: with TLS and delegated
// authentication where secure is not nil, else without both.
func serve(l net.Listener, secure *apiserver.SecureServingInfo, handler http.Handler) (stop func(), err error) {
	if secure != nil {
		end := make(chan struct{})
		done, _, err := secure.Serve(handler, servingPatience, end)
		if err != nil {
			close(end)
			return nil, fmt.Errorf("serve metrics: %w", err)
		}
		return func() { close(end); <-done }, nil
	}
	return listen.Serve(l, handler, servingPatience), nil
}
