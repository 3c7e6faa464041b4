package training

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/core/training"
)

// trainerStatus is what is read of the field trainerStatus of a TrainJob.
//
// Source: TrainJobTrainerStatus of Kubeflow Trainer, KEP-2779.
type trainerStatus struct {
	ProgressPercentage        *int64    `json:"progressPercentage"`
	EstimatedRemainingSeconds *int64    `json:"estimatedRemainingSeconds"`
	LastUpdatedTime           time.Time `json:"lastUpdatedTime"`
}

// Progress returns how far a job is: the trainerStatus of a TrainJob, else the annotation berth.dev/progress of the job, else that of
// its pod of the lowest rank that has one. pods are those of the job, or some of them. It is nil if nothing reports it. The error names the
// object whose report cannot be read, and what to write.
func Progress(o Object, j *training.Job, pods []*corev1.Pod) (*training.Progress, error) {
	if t, ok := o.(*trainer.TrainJob); ok && t.Status.TrainerStatus != nil {
		if p := ofTrainer(t.Status.TrainerStatus.Raw); p != nil {
			return p, nil
		}
	}
	if text, ok := o.GetAnnotations()[api.AnnotationProgress]; ok {
		return progress(text, "annotation "+api.AnnotationProgress)
	}
	first, lowest := (*corev1.Pod)(nil), 0
	for _, p := range pods {
		one, ok := PodOf(j.Kind, p)
		if _, reports := p.Annotations[api.AnnotationProgress]; !ok || !reports || one.Deleting || one.Round < j.Round {
			continue
		}
		if rank := j.Rank(one.Member); first == nil || rank < lowest {
			first, lowest = p, rank
		}
	}
	if first == nil {
		return nil, nil
	}
	return progress(first.Annotations[api.AnnotationProgress], "annotation "+api.AnnotationProgress+" of pod "+first.Name)
}

// ofTrainer reads a trainerStatus, nil if it reports no progress.
func ofTrainer(raw []byte) *training.Progress {
	var s trainerStatus
	if err := json.Unmarshal(raw, &s); err != nil || s.ProgressPercentage == nil || *s.ProgressPercentage < 0 || *s.ProgressPercentage > 100 {
		return nil
	}
	p := &training.Progress{Ratio: float64(*s.ProgressPercentage) / 100}
	if left := s.EstimatedRemainingSeconds; left != nil && *left >= 0 && *left < 1<<31 && !s.LastUpdatedTime.IsZero() {
		p.Left = training.Remaining{For: time.Duration(*left) * time.Second, At: s.LastUpdatedTime}
	}
	return p
}

func progress(text, where string) (*training.Progress, error) {
	p, err := training.ParseProgress(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return &p, nil
}

// Began returns since when the programs of a job run, as training.Job.Began says.
func Began(j *training.Job, pods []*corev1.Pod) time.Time {
	var list []training.Pod
	for _, p := range pods {
		if one, ok := PodOf(j.Kind, p); ok {
			list = append(list, one)
		}
	}
	return j.Began(list)
}
