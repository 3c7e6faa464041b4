package crd_test

import (
	"strings"
	"testing"
)

// TestAnInferenceServiceAsksForGPUsOnce has requests and limits for GPUs that differ, in each place where a server's can be: the API
// server refuses them at the service itself, with what to do.
// rows: GS-49
func TestAnInferenceServiceAsksForGPUsOnce(t *testing.T) {
	for _, tt := range []struct{ name, predictor, want string }{
		{"a limit alone", "model: {modelFormat: {name: onnx}, resources: {limits: {nvidia.com/gpu: 1}}}", ""},
		{"the same twice, as a number and as a text", "model: {modelFormat: {name: onnx}, resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: \"1\"}}}", ""},
		{"CPU that differs", "model: {modelFormat: {name: onnx}, resources: {limits: {cpu: 2}, requests: {cpu: 500m}}}", ""},
		{"no resources, and unknown fields", "tensorflow: {storageUri: \"pvc://a/b\", other: {x: 1}}", ""},
		{"a request unlike its limit", "model: {modelFormat: {name: onnx}, resources: {limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}}}", "differs from its limit"},
		{"a request without a limit", "model: {modelFormat: {name: onnx}, resources: {requests: {nvidia.com/gpu: 1}}}", "requested without a limit"},
		{"in the block of a framework", "tensorflow: {resources: {limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}}}", "differs from its limit"},
		{"of a container", "containers: [{name: kserve-container, image: x, resources: {limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}}}]", "differs from its limit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := newJudge(t, "inferenceservices.serving.kserve.io")
			_, wrong := j.read(t, "metadata: {name: iris, namespace: ml}\nspec:\n  predictor:\n    "+tt.predictor+"\n")
			if got := strings.Join(wrong, "\n"); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("the API server says %q, want %q", got, tt.want)
			}
		})
	}
}
