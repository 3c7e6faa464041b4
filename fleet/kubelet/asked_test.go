package kubelet_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/fleet/kubelet"
)

func TestRequestsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := kubelet.NewAsked(2, time.Now)
		var all sync.WaitGroup
		gone, leave := context.WithCancel(t.Context())
		for i := range 5 {
			ctx := t.Context()
			if i == 4 {
				ctx = gone
			}
			all.Go(func() { a.Work(ctx, time.Minute) })
		}
		says := func(running, waiting int, least, most float64) {
			t.Helper()
			synctest.Wait()
			r, w := a.Now()
			if b := a.Busy(); r != running || w != waiting || b < least || b > most {
				t.Errorf("it works on %d, %d wait, busy %.2f; want %d, %d, %.2f to %.2f", r, w, b, running, waiting, least, most)
			}
		}
		says(2, 3, 0, 0)
		time.Sleep(30 * time.Second)
		says(2, 3, 0.99, 1)
		leave() // of those that wait or work, one goes
		synctest.Wait()
		if r, w := a.Now(); r+w != 4 {
			t.Errorf("%d requests after one client has gone", r+w)
		}
		all.Wait()
		time.Sleep(time.Minute)
		says(0, 0, 0, 0.01)
	})
}

func TestAModelServerReportsWhatWaits(t *testing.T) {
	for _, tt := range []struct {
		metrics, want string
		status        int
	}{
		{kubelet.MetricsVLLM, "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 1\n# HELP vllm:num_requests_waiting Simulated: requests that wait.\n# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 2\n", 200},
		{kubelet.MetricsTriton, "nv_inference_pending_request_count{model=\"m\",version=\"1\"} 2\n", 200},
		{"", "404 page not found", 404},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := kubelet.NewAsked(1, time.Now)
			c := pod("p")
			c.Ports = []int{8080}
			c.Model = &kubelet.Model{Name: "m", Ready: true, Takes: time.Hour, Asked: a, Metrics: tt.metrics}
			h := kubelet.New(&fakeRuntime{cs: []kubelet.Container{c}}, fixed).PodHandler(node, "default", "p", 8080)
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/v2/models/m/infer", strings.NewReader(`{"inputs": []}`)))
				})
			}
			synctest.Wait()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, tt.status, tt.want)
			}
			stop()
			all.Wait()
		})
	}
}
