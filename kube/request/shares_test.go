package request_test

import (
	"testing"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

// TestWhomSharesServe: several GPUs of one container are GPUs, unless the pod says that
// shares will do. Only the word true says it.
func TestWhomSharesServe(t *testing.T) {
	for _, tt := range []struct {
		words, note string
		want        bool
	}{
		{api.ResourceGPU + "=1", "", true},
		{api.ResourceGPU + "=1", "false", true},
		{api.ResourceGPU + "=2", "", false},
		{api.ResourceGPU + "=2", "true", true},
		{api.ResourceGPU + "=2", "yes", false},
		{api.ResourceGPU + "=2", "false", false},
		{api.ResourceGPU + "=1 side:" + api.ResourceGPU + "=1", "", true}, // one of each container
		{"side:" + api.ResourceGPU + "=3", "", false},
		{"init:" + api.ResourceGPU + "=2 " + api.ResourceGPU + "=1", "", false},
		{api.ResourceGPUShared + "=2", "", true},
	} {
		pod := spelt(tt.words)
		if tt.note != "" {
			pod.Annotations[api.AnnotationSharesDo] = tt.note
		}
		if got := request.SharesDo(pod, request.Parts(pod)); got != tt.want {
			t.Errorf("%s with %q: %v, want %v", tt.words, tt.note, got, tt.want)
		}
	}
}
