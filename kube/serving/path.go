package serving

import (
	"encoding/json"
	"slices"
	"strings"
)

// PredictPath is where a request for the model of a service is sent: by the service's protocol, and OpenAI's path for one with
// messages to a language model.
func PredictPath(w *Written, request []byte) string {
	name, m := w.object.Name, w.Service.Model
	if m == nil {
		return "/v1/models/" + name + ":predict"
	}
	var in struct {
		Messages []any `json:"messages"`
	}
	if json.Unmarshal(request, &in) == nil && len(in.Messages) > 0 && slices.Contains([]string{"huggingface", "vllm"}, m.Format) {
		return "/openai/v1/chat/completions"
	}
	if strings.HasSuffix(m.Protocol, "v2") || m.Protocol == "" && slices.Contains([]string{"onnx", "tensorrt", "triton", "mlflow"}, m.Format) {
		return "/v2/models/" + name + "/infer"
	}
	return "/v1/models/" + name + ":predict"
}
