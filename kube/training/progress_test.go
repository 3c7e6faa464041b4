package training_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// TestProgress holds whose report of the progress of a job counts.
func TestProgress(t *testing.T) {
	pod := func(kind, index, round, progress string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name:        "bert-" + kind + "-" + index,
			Labels:      map[string]string{kubeflow.LabelReplicaType: kind, kubeflow.LabelReplicaIndex: index},
			Annotations: map[string]string{api.AnnotationProgress: progress, api.AnnotationRound: round},
		}}
	}
	torch := training.Job{Kind: training.PyTorchJob, Name: "bert", Round: 1, Replicas: []training.Replica{{Type: training.Master, Count: 1}, {Type: training.Worker, Count: 3}}}
	node := training.Job{Kind: training.TrainJob, Name: "bert", Replicas: []training.Replica{{Type: training.Node, Count: 2}}}
	status := func(raw string) *trainer.TrainJob {
		return &trainer.TrainJob{Status: trainer.TrainJobStatus{TrainerStatus: &runtime.RawExtension{Raw: []byte(raw)}}}
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	noted := &kubeflow.PyTorchJob{}
	noted.Annotations = map[string]string{api.AnnotationProgress: "60%"}
	for _, tt := range []struct {
		name   string
		object objects.Object
		job    training.Job
		pods   []*corev1.Pod
		want   *training.Progress
		err    string
	}{
		{"nothing is reported", &kubeflow.PyTorchJob{}, torch, []*corev1.Pod{{}}, nil, ""},
		{"the pod of the lowest rank", &kubeflow.PyTorchJob{}, torch, []*corev1.Pod{pod("worker", "2", "1", "0.1"), pod("worker", "0", "1", "0.3")}, &training.Progress{Ratio: 0.3}, ""},
		{"a pod that goes with a move does not count", &kubeflow.PyTorchJob{}, torch, []*corev1.Pod{pod("master", "0", "0", "0.9"), pod("worker", "0", "1", "0.3")}, &training.Progress{Ratio: 0.3}, ""},
		{"the job goes before its pods", noted, torch, []*corev1.Pod{pod("worker", "0", "1", "0.3")}, &training.Progress{Ratio: 0.6}, ""},
		{
			"a pod reports what cannot be read", &kubeflow.PyTorchJob{}, torch,
			[]*corev1.Pod{pod("worker", "0", "1", "fast")},
			nil,
			`annotation berth.dev/progress of pod bert-worker-0: "fast" is not a valid progress: write a number from 0 to 1, such as 0.42, or a percentage, such as 42%`,
		},
		{
			"the status of a TrainJob", status(`{"progressPercentage":40,"estimatedRemainingSeconds":90,"lastUpdatedTime":"2026-01-02T03:04:05Z"}`), node, nil,
			&training.Progress{Ratio: 0.4, Left: training.Remaining{For: 90 * time.Second, At: at}}, "",
		},
		{"one without an estimate", status(`{"progressPercentage":40,"lastUpdatedTime":null}`), node, nil, &training.Progress{Ratio: 0.4}, ""},
		{"one that cannot be read", status(`{"progressPercentage":400}`), node, nil, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := objects.Progress(tt.object, &tt.job, tt.pods)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tt.err || (got == nil) != (tt.want == nil) || got != nil && (got.Ratio != tt.want.Ratio || got.Left.For != tt.want.Left.For || !got.Left.At.Equal(tt.want.Left.At)) {
				t.Errorf("%+v, %q; want %+v, %q", got, text, tt.want, tt.err)
			}
		})
	}
}
