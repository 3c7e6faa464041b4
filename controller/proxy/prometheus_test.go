package proxy

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestAPrometheusIsFoundAndAskedThroughTheAPIServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RequestURI() {
		case "/api/v1/namespaces/monitoring/pods/prometheus-0:9090/proxy/api/v1/query?query=up":
			_, _ = w.Write([]byte("well"))
		case "/api/v1/namespaces/monitoring/pods/prometheus-0:9090/proxy/api/v1/query?query=%29":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"status":"error","errorType":"bad_data","error":"unexpected )"}`))
		case "/api/v1/namespaces/monitoring/pods/prometheus-0:9090/proxy/api/v1/query?query=login":
			w.Header().Set("Location", "/login")
			w.WriteHeader(http.StatusFound)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no endpoints"}`))
		}
	}))
	defer server.Close()
	pods := fake.NewClientBuilder().WithObjects(
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "prometheus-0", Labels: map[string]string{"app.kubernetes.io/name": "prometheus", "app": "prometheus"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Image: "prom/prometheus"}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "other"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
	).Build()
	g := &Gauges{Client: &http.Client{CheckRedirect: NoRedirect}, Root: server.URL + "/api/v1/namespaces/", Pods: pods, Now: time.Now, Longest: 5 * time.Second}
	list, err := g.Prometheuses(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "monitoring/prometheus-0" {
		t.Fatalf("found are %v, %v", list, err)
	}
	if raw, err := list[0].Get(t.Context(), "api/v1/query", url.Values{"query": {"up"}}); err != nil || string(raw) != "well" {
		t.Errorf("it answers %s, %v", raw, err)
	}
	for query, want := range map[string]string{")": "unexpected )", "login": "status 302", "none": "no endpoints"} {
		if _, err := list[0].Get(t.Context(), "api/v1/query", url.Values{"query": {query}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v; want %s", query, err, want)
		}
	}
	server.Close()
	if _, err := list[0].Get(t.Context(), "api/v1/query", url.Values{"query": {"up"}}); err == nil || strings.Contains(err.Error(), "query=up") {
		t.Errorf("without a server the error is %v", err)
	}
}
