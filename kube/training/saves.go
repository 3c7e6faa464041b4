package training

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/checkpoint"
)

// Saves reads from its annotations how the program of a pod saves its work, and when it last did. A value that cannot be
// read counts as missing.
func Saves(p *v1.Pod) checkpoint.Saves {
	s, err := checkpoint.Parse(p.Annotations[api.AnnotationCheckpoint])
	if err != nil {
		s = checkpoint.Saves{}
	}
	if text := p.Annotations[api.AnnotationCheckpointedAt]; text != "" {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			s.Last = at
		}
	}
	return s
}

// Leads reports whether no job goes on without the pod, whatever its minimum: it is the Chief or Master, or the first worker where there is none.
func Leads(p *v1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(p)
	return ref != nil && slices.Contains(Kinds(), ref.Kind) && p.Labels[kubeflow.LabelJobRole] == "master"
}
