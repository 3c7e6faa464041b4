package serving_test

import (
	"testing"

	rules "berth.dev/berth/core/serving"
	"berth.dev/berth/kube/serving"
)

func TestQueueOf(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       rules.Figure
		ok         bool
	}{
		{"vLLM, of two models", "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"a\"} 8.0\nvllm:num_requests_waiting{engine=\"0\",model_name=\"a\"} 3.0\nvllm:num_requests_waiting{model_name=\"b } \"} 1\nvllm:num_requests_waiting_by_reason{a=\"b\"} 7\n", rules.Figure{Value: 4, Running: 8}, true},
		{"Triton", "nv_inference_count{model=\"a\"} 100\nnv_inference_pending_request_count{model=\"a\",version=\"1\"} 5\n", rules.Figure{Value: 5}, true},
		{"an empty queue is known", "vllm:num_requests_waiting 0", rules.Figure{}, true},
		{"another server tells nothing", "request_predict_seconds_count{model_name=\"a\"} 4\n", rules.Figure{}, false},
		{"a page is not metrics", "<html>{}vllm:num_requests_waiting</html>", rules.Figure{}, false},
		{"a value that is not a number is passed over", "vllm:num_requests_waiting{a=\"b\"} NaN\nvllm:num_requests_waiting{\nvllm:num_requests_waiting -1\nvllm:num_requests_waiting +Inf", rules.Figure{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := serving.QueueOf([]byte(tt.text)); got != tt.want || ok != tt.ok {
				t.Errorf("%+v %v, want %+v %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestMetricsAt(t *testing.T) {
	for _, tt := range []struct {
		name       string
		notes      map[string]string
		port, path string
	}{
		{"of a runtime of KServe's", map[string]string{"prometheus.kserve.io/port": "8002", "prometheus.kserve.io/path": "/m"}, "8002", "/m"},
		{"by Prometheus' usual annotations", map[string]string{"prometheus.io/port": "9000", "prometheus.io/path": "stats"}, "9000", "/stats"},
		{"of a pod that says nothing", nil, "8080", "/metrics"},
		{"whose path leads out of the pod", map[string]string{"prometheus.io/path": "../../../secrets"}, "8080", "/secrets"},
		{"whose path is escaped", map[string]string{"prometheus.io/path": "/%2e%2e/x?y"}, "8080", "/metrics"},
		{"at an invalid port", map[string]string{"prometheus.kserve.io/port": "8002/../../nodes"}, "8080", "/metrics"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if port, path := serving.MetricsAt(tt.notes); port != tt.port || path != tt.path {
				t.Errorf("%s %s, want %s %s", port, path, tt.port, tt.path)
			}
		})
	}
}
