package exporter

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/api"
)

// Scheme is "https" for an exporter's pod that is annotated so, else "http".
func Scheme(p *v1.Pod) string {
	if p.Annotations[api.AnnotationScrapeScheme] == "https" {
		return "https"
	}
	return "http"
}

// WantsMetricsToken reports whether an exporter asks for a token and may be sent one: it
// serves with TLS, and is a pod that only those can create who may create pods in
// api.MetricsNamespace with the agents' ServiceAccount. Another pod with the labels of an
// exporter would get the token to read all metrics with.
func WantsMetricsToken(p *v1.Pod) bool {
	return Scheme(p) == "https" && p.Namespace == api.MetricsNamespace && p.Spec.ServiceAccountName == api.AgentAccount
}

const (
	metricsTokenLife  = 10 * time.Minute // the shortest that an API server gives
	metricsTokenSpare = 2 * time.Minute  // of it, for clocks that differ
	metricsTokenRetry = 30 * time.Second // after it could not be had
)

// MetricsTokens are tokens for api.MetricsTokenHeader, one after another. They need the
// verb create on serviceaccounts/token of api.MetricsReader. Safe for concurrent use.
type MetricsTokens struct {
	client kubernetes.Interface
	now    func() time.Time

	mu    sync.Mutex
	token string
	err   error
	until time.Time // for token, or for err
}

// NewMetricsTokens makes a MetricsTokens. now is the clock.
func NewMetricsTokens(client kubernetes.Interface, now func() time.Time) *MetricsTokens {
	return &MetricsTokens{client: client, now: now}
}

// Get returns a token that is good for a minute at least.
func (t *MetricsTokens) Get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if now.Before(t.until) && t.until.Sub(now) <= metricsTokenLife {
		return t.token, t.err
	}
	seconds := int64(metricsTokenLife / time.Second)
	got, err := t.client.CoreV1().ServiceAccounts(api.MetricsNamespace).CreateToken(ctx, api.MetricsReader, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{api.MetricsAudience}, ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		t.token, t.err = "", fmt.Errorf("get a token of ServiceAccount %s/%s, which may read the agents' metrics: %w", api.MetricsNamespace, api.MetricsReader, err)
		if ctx.Err() == nil {
			t.until = now.Add(metricsTokenRetry)
		}
		return "", t.err
	}
	t.token, t.err, t.until = got.Status.Token, nil, now.Add(metricsTokenLife-metricsTokenSpare)
	return t.token, nil
}
