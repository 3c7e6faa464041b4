package training

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/checkpoint"
)

// Saves reads from its annotations how the program of a pod saves its work, and when it last did. A value that cannot be
// read counts as missing.
func Saves(p *v1.Pod) checkpoint.Saves {
	s, err := checkpoint.Parse(p.Annotations[api.AnnotationCheckpoint])
	if err != nil {
		s = checkpoint.Saves{}
	}
	if at, err := time.Parse(time.RFC3339, p.Annotations[api.AnnotationCheckpointedAt]); err == nil {
		s.Last = at
	}
	return s
}
