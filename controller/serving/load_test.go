package serving

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rules "berth.dev/berth/core/serving"
	"berth.dev/berth/kube/exporter"
)

func TestReplicasFollowTheQueuesOfTheirServers(t *testing.T) {
	w := newWorld(t, strings.Replace(tensorflow, "minReplicas: 0", "minReplicas: 1, scaleMetric: queue-depth", 1))
	var asked atomic.Int32
	waiting := map[string]float64{"p": 9}
	var fails error
	w.r.report = func(_ context.Context, m rules.Metric, pod *corev1.Pod) (rules.Figure, error) {
		if asked.Add(1); m != rules.ByQueue {
			t.Errorf("asked for %s", m)
		}
		if pod.Name == "q" && fails != nil {
			return rules.Figure{}, fails
		}
		return rules.Figure{Value: waiting[pod.Name], Running: 1}, nil
	}
	w.pass()
	if asked.Load() != 0 {
		t.Error("a replica that is not there is asked")
	}
	w.pod("p", ready)
	w.now = w.now.Add(loadAgain)
	w.pass()
	if n := *w.deployment().Spec.Replicas; n != 3 || asked.Load() != 1 {
		t.Fatalf("%d replicas while 9 requests wait at one, asked %d times", n, asked.Load())
	}
	w.now = w.now.Add(loadAgain / 2)
	if w.pass(); asked.Load() != 1 {
		t.Errorf("asked %d times in %s", asked.Load(), loadAgain)
	}

	// One that cannot be asked keeps all of them, and the status says so.
	w.pod("q", ready)
	waiting, fails = nil, errors.New("its metrics cannot be read: no response within 2s")
	for range 50 {
		w.now = w.now.Add(loadAgain)
		w.pass()
	}
	if n := *w.deployment().Spec.Replicas; n != 3 {
		t.Errorf("%d replicas while one is not read", n)
	}
	w.says("Ready", "True", "2 of 3 replicas ready; no replica ends while the queue-depth of pod q is not known: its metrics cannot be read")
	if n := w.pass(); n != 0 {
		t.Errorf("a pass writes %d times, although nothing has changed", n)
	}
	fails = nil
	for range 50 {
		w.now = w.now.Add(loadAgain)
		w.pass()
	}
	if n := *w.deployment().Spec.Replicas; n != 2 {
		t.Errorf("%d replicas while two work on a request each, and none waits", n)
	}
}

func TestBusy(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
	of := func(name string, ratio float64) exporter.Reading {
		return exporter.Reading{Namespace: "ml", Pod: name, Utilization: ratio, UtilizationKnown: true}
	}
	for _, tt := range []struct {
		name     string
		readings []exporter.Reading
		served   bool
		want     float64
		says     string
	}{
		{"the mean of its GPUs", []exporter.Reading{of("p", 1), of("p", 0.5), of("q", 0)}, true, 75, ""},
		{"no exporter", nil, false, 0, "no DCGM exporter runs on node n"},
		{"an exporter that knows others", []exporter.Reading{of("q", 1)}, true, 0, "does not report its GPUs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := busy(pod, tt.readings, tt.served)
			if f.Value != tt.want || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%g %v, want %g %q", f.Value, err, tt.want, tt.says)
			}
		})
	}
}

func TestQueue(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "p", Annotations: map[string]string{"prometheus.kserve.io/port": "8002"}}}
	for _, tt := range []struct {
		name, says string
		status     int
		want       float64
		fails      string
	}{
		{"a server of Triton", "nv_inference_pending_request_count{model=\"m\"} 5\n", 200, 5, ""},
		{"a server that reports something else", "up 1\n", 200, 0, "(port 8002, path /metrics) have none of vllm:num_requests_waiting, nv_inference_pending_request_count; use scaleMetric concurrency"},
		{"a server without metrics", "", 404, 0, "the server responds with status 404"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.Path
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.says))
			}))
			defer s.Close()
			f, err := queue(t.Context(), s.Client(), s.URL+"/ns/", pod)
			if f.Value != tt.want || (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%g %v, want %g %q", f.Value, err, tt.want, tt.fails)
			}
			if asked != "/ns/ml/pods/p:8002/proxy/metrics" {
				t.Errorf("asked for %s", asked)
			}
		})
	}
}
