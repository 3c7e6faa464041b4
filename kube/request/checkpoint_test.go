package request_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

func TestCheckpoint(t *testing.T) {
	for text, want := range map[string]time.Duration{"10m": 10 * time.Minute, "": 0, "often": 0, "-1s": 0} {
		p := &v1.Pod{}
		p.Annotations = map[string]string{api.AnnotationCheckpoint: text}
		if got := request.Checkpoint(p); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
