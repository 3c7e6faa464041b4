package client

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

func TestWithoutAMeterAPrometheusOfTheClusterIsAsked(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const through = "/api/v1/namespaces/monitoring/pods/prometheus-1:9090/proxy/"
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == through+"api/v1/query" && r.FormValue("query") == "up":
			_, _ = w.Write([]byte(`{"status":"success","data":7,"warnings":["half of it"]}`))
		case r.URL.Path == through+"api/v1/query":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"status":"error","error":"unexpected )"}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`))
		}
	}))
	defer server.Close()
	pod := func(name string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: name, Labels: map[string]string{"app.kubernetes.io/name": "prometheus"}},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Image: "prom/prometheus"}}}, Status: v1.PodStatus{Phase: v1.PodRunning},
		}
	}
	var notes bytes.Buffer
	c := &Cluster{Interface: fake.NewClientset(), Config: &rest.Config{Host: server.URL}, Name: "here", notes: &notes}
	var n int
	ask := func(question, query string) error {
		return c.Prometheus(t.Context(), question, map[string]string{"query": query}, &n)
	}
	if err := ask("query", "up"); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("without a Prometheus the error is %v", err)
	}
	c.Interface = fake.NewClientset(pod("prometheus-0"), pod("prometheus-1")) // of which the first does not answer
	if err := ask("query", "up"); err != nil || n != 7 || !strings.Contains(notes.String(), "asked: Prometheus monitoring/prometheus-1, ") || !strings.Contains(notes.String(), "note: half of it") {
		t.Errorf("it answers %d, %v, and notes %s", n, err, notes.String())
	}
	if err := ask("query", ")"); err == nil || err.Error() != "unexpected )" {
		t.Errorf("of a wrong expression the error is %v", err)
	}
	if err := ask("alerts", ""); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("of alerts the error is %v", err)
	}
}
