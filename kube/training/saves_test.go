package training_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
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

func TestLeads(t *testing.T) {
	for _, tt := range []struct {
		name, kind string
		labels     map[string]string
		want       bool
	}{
		{"the Master of a PyTorchJob", "PyTorchJob", map[string]string{kubeflow.LabelJobRole: "master"}, true},
		{"a worker", "PyTorchJob", map[string]string{kubeflow.LabelReplicaIndex: "1"}, false},
		{"a pod that only has the label", "ReplicaSet", map[string]string{kubeflow.LabelJobRole: "master"}, false},
		{"a pod without a controller", "", map[string]string{kubeflow.LabelJobRole: "master"}, false},
	} {
		p := &v1.Pod{}
		if p.Labels = tt.labels; tt.kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: tt.kind, Name: "x", UID: "x", Controller: new(true)}}
		}
		if got := training.Leads(p); got != tt.want {
			t.Errorf("%s leads: %v", tt.name, got)
		}
	}
}
