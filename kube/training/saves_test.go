package training_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/checkpoint"
	"berth.dev/berth/kube/training"
)

func TestSaves(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		how, last string
		want      checkpoint.Saves
	}{
		{"10m", "", checkpoint.Saves{Every: 10 * time.Minute}},
		{"on-signal", "2026-01-02T03:04:05Z", checkpoint.Saves{OnSignal: true, Last: at}},
		{"", "2026-01-02T05:04:05+02:00", checkpoint.Saves{Last: at}},
		{"often", "yesterday", checkpoint.Saves{}},
		{"", "", checkpoint.Saves{}},
	} {
		p := &v1.Pod{}
		p.Annotations = map[string]string{api.AnnotationCheckpoint: tt.how, api.AnnotationCheckpointedAt: tt.last}
		if got := training.Saves(p); got.OnSignal != tt.want.OnSignal || got.Every != tt.want.Every || !got.Last.Equal(tt.want.Last) {
			t.Errorf("%q, %q: %+v, want %+v", tt.how, tt.last, got, tt.want)
		}
	}
}
