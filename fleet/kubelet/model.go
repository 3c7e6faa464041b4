package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// Model is what a simulated model server serves.
type Model struct {
	Name  string
	Ready bool          // it has loaded the model, and answers
	Takes time.Duration // for an answer
	Fails float64       // the part of the answers that are errors

	Calls   string // the host whose model it asks, as a transformer does: SERVICE, SERVICE.NAMESPACE, and so on, with a port or not; "" is none
	Asked   *Asked // what is asked of it; nil is that this is not kept
	Metrics string // of which program it has metrics: MetricsVLLM, MetricsTriton, or "" for none
}

// The programs whose metrics a model server has.
const (
	MetricsVLLM   = "vllm"
	MetricsTriton = "triton"
)

// modelServer is the header by which every answer says what it is, and modelWords what a language model says.
const (
	modelServer = "Berth: a simulated model server; no model runs here"
	modelWords  = "This answer is simulated by Berth: no model runs here."
)

// mostRequest is how much of a request is read, in bytes.
const mostRequest = 64 << 20

// modelHandler answers as model servers do: TensorFlow Serving and KServe's V1, the Open Inference Protocol V2, and OpenAI's paths. Each
// answer takes as long as the container's model does, and says that it is simulated.
func modelHandler(c Container) http.Handler {
	m := c.Model
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(*http.Request) (any, int)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, status := answer(r)
			if r.Method == http.MethodPost && rand.Float64() < m.Fails {
				body, status = refusal(http.StatusInternalServerError, "the model fails, as the annotation berth.dev/simulate says")
			}
			w.Header().Set("Server", modelServer)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body) // the client may have gone
		})
	}
	if m.Metrics != "" && m.Asked != nil {
		mux.HandleFunc("GET /metrics", m.metrics)
	}
	for _, path := range []string{"/v2/health/live", "/v2/health/ready", "/health", "/healthz"} {
		handle("GET "+path, func(*http.Request) (any, int) {
			return map[string]any{"live": true, "ready": true, "simulated": true}, http.StatusOK
		})
	}
	handle("GET /{$}", func(*http.Request) (any, int) {
		return map[string]any{"status": "alive", "simulated": modelServer}, http.StatusOK
	})
	handle("GET /v1/models/{name}", m.named(func(*http.Request) (any, int) {
		return map[string]any{"name": m.Name, "ready": true, "simulated": true, "model_version_status": []any{
			map[string]any{"version": "1", "state": "AVAILABLE", "status": map[string]any{"error_code": "OK", "error_message": ""}},
		}}, http.StatusOK
	}))
	handle("POST /v1/models/{name}", m.named(m.predict))
	handle("GET /v2/models/{name}", m.named(func(*http.Request) (any, int) {
		return map[string]any{"name": m.Name, "versions": []string{"1"}, "platform": "simulated", "inputs": []any{}, "outputs": []any{}}, http.StatusOK
	}))
	handle("GET /v2/models/{name}/ready", m.named(func(*http.Request) (any, int) {
		return map[string]any{"name": m.Name, "ready": true, "simulated": true}, http.StatusOK
	}))
	handle("POST /v2/models/{name}/infer", m.named(m.infer))
	for _, prefix := range []string{"", "/openai"} {
		handle("GET "+prefix+"/v1/models", func(*http.Request) (any, int) {
			return map[string]any{"object": "list", "data": []any{map[string]any{"id": m.Name, "object": "model", "owned_by": "berth-simulated"}}}, http.StatusOK
		})
		handle("POST "+prefix+"/v1/chat/completions", m.chat)
		handle("POST "+prefix+"/v1/completions", m.chat)
	}
	return mux
}

// refusal is an answer of an error, as TensorFlow Serving and KServe write it.
func refusal(status int, format string, args ...any) (any, int) {
	return map[string]any{"error": fmt.Sprintf(format, args...), "simulated": true}, status
}

// named answers only for the model that is served.
func (m *Model) named(answer func(*http.Request) (any, int)) func(*http.Request) (any, int) {
	return func(r *http.Request) (any, int) {
		if name, _, _ := strings.Cut(r.PathValue("name"), ":"); name != m.Name {
			return refusal(http.StatusNotFound, "model %s is not served here; this one is %s", name, m.Name)
		}
		return answer(r)
	}
}

// read decodes a request, and waits as long as the model would take. The error is for the client.
func (m *Model) read(r *http.Request) (map[string]any, error) {
	text, err := io.ReadAll(io.LimitReader(r.Body, mostRequest))
	if err != nil {
		return nil, errors.New("the request ended early")
	}
	var in map[string]any
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, fmt.Errorf("JSON parse error: %w", err)
	}
	m.work(r)
	return in, nil
}

// work waits as long as the model would take for a request.
func (m *Model) work(r *http.Request) {
	asked := m.Asked
	if asked == nil {
		asked = NewAsked(0, time.Now)
	}
	asked.Work(r.Context(), m.Takes)
}

// metrics says how many requests it works on, and how many wait, in the words of vLLM or of Triton.
func (m *Model) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Server", modelServer)
	w.Header().Set("Content-Type", metricsType)
	running, waiting := m.Asked.Now()
	gauge := func(name, help, labels string, v int) {
		fmt.Fprintf(w, "# HELP %s Simulated: %s.\n# TYPE %s gauge\n%s{%s} %d\n", name, help, name, name, labels, v)
	}
	if m.Metrics == MetricsTriton {
		gauge("nv_inference_pending_request_count", "requests that wait", fmt.Sprintf(`model=%q,version="1"`, m.Name), waiting)
		return
	}
	labels := fmt.Sprintf(`engine="0",model_name=%q`, m.Name)
	gauge("vllm:num_requests_running", "requests that it works on", labels, running)
	gauge("vllm:num_requests_waiting", "requests that wait", labels, waiting)
}

// classes is how many equal scores an answer has for each input.
const classes = 10

func scores() []float64 {
	out := make([]float64, classes)
	for i := range out {
		out[i] = 1.0 / classes
	}
	return out
}

// predict answers V1's NAME:predict.
func (m *Model) predict(r *http.Request) (any, int) {
	_, verb, _ := strings.Cut(r.PathValue("name"), ":")
	switch verb {
	case "predict", "classify", "regress":
	default:
		return refusal(http.StatusBadRequest, "write /v1/models/%s:predict", m.Name)
	}
	in, err := m.read(r)
	if err != nil {
		return refusal(http.StatusBadRequest, "%v", err)
	}
	instances, ok := in["instances"].([]any)
	if _, inputs := in["inputs"]; !ok && !inputs {
		return refusal(http.StatusBadRequest, "Missing 'inputs' or 'instances' key")
	}
	predictions := []any{}
	for range max(len(instances), 1) {
		predictions = append(predictions, scores())
	}
	return map[string]any{"predictions": predictions, "simulated": modelServer}, http.StatusOK
}

// infer answers V2's infer.
func (m *Model) infer(r *http.Request) (any, int) {
	in, err := m.read(r)
	if err != nil {
		return refusal(http.StatusBadRequest, "%v", err)
	}
	if _, ok := in["inputs"].([]any); !ok {
		return refusal(http.StatusBadRequest, "inputs is missing")
	}
	return map[string]any{
		"model_name": m.Name, "model_version": "1", "id": in["id"], "parameters": map[string]any{"simulated": modelServer},
		"outputs": []any{map[string]any{"name": "output-0", "datatype": "FP32", "shape": []int{1, classes}, "data": scores()}},
	}, http.StatusOK
}

// chat answers OpenAI's completions.
func (m *Model) chat(r *http.Request) (any, int) {
	in, err := m.read(r)
	if err != nil {
		return refusal(http.StatusBadRequest, "%v", err)
	}
	choice := map[string]any{"index": 0, "finish_reason": "stop", "text": modelWords}
	object := "text_completion"
	if in["messages"] != nil {
		delete(choice, "text")
		choice["message"], object = map[string]any{"role": "assistant", "content": modelWords}, "chat.completion"
	}
	return map[string]any{"id": "simulated", "object": object, "model": m.Name, "choices": []any{choice}, "usage": map[string]any{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}, http.StatusOK
}
