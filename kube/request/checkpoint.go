package request

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
)

// Checkpoint returns how often a pod saves what it has done, as its annotation says;
// 0 is never, or that the annotation cannot be read.
func Checkpoint(p *v1.Pod) time.Duration {
	d, err := time.ParseDuration(p.Annotations[api.AnnotationCheckpoint])
	if err != nil || d < 0 {
		return 0
	}
	return d
}
