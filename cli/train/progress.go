package train

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/api"
	"berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// progress is how far a job is, as its program reports.
type progress struct {
	Progress         *float64 `json:"progress"` // ratio 0-1; null is not reported
	RemainingSeconds *int64   `json:"remainingSeconds,omitempty"`
	Problem          string   `json:"progressProblem,omitempty"` // why a report cannot be read
}

// measureProgress sets how far a job is, from what it and its pods report. A job that does not run has no time that is left.
func (j *job) measureProgress(pods []*v1.Pod, now time.Time) {
	j.far = progress{}
	if j.problem != "" {
		return
	}
	p, err := objects.Progress(j.object, &j.Job, pods)
	switch {
	case err != nil:
		j.far.Problem = err.Error()
	case p != nil:
		j.far.Progress = &p.Ratio
		if left, ok := p.TimeLeft(objects.Began(&j.Job, pods), now); ok && j.state() == training.ConditionRunning {
			seconds := int64(left.Seconds())
			j.far.RemainingSeconds = &seconds
		}
	}
}

// progress sets how far each of some jobs is. Their pods are read if a job runs; a client that may not list pods sees what jobs report.
func (j *jobs) progress(ctx context.Context, namespace string, list []*job, now time.Time) {
	pods := map[string][]*v1.Pod{}
	if slices.ContainsFunc(list, func(o *job) bool { return o.state() == training.ConditionRunning }) {
		found, err := j.PodsOf(ctx, namespace, func(p *v1.Pod) bool {
			_, _, ok := objects.OwnerOf(p)
			return ok && p.Annotations[api.AnnotationProgress] != ""
		})
		if err == nil {
			for _, p := range found {
				kind, name, _ := objects.OwnerOf(p)
				key := kind + "/" + p.Namespace + "/" + name
				pods[key] = append(pods[key], p)
			}
		}
	}
	for _, o := range list {
		o.measureProgress(pods[string(o.Kind)+"/"+o.Namespace+"/"+o.Name], now)
	}
}

// short is how far a job is, for a column.
func (p *progress) short() string {
	switch {
	case p.Progress == nil:
		return "-"
	case p.RemainingSeconds == nil || *p.Progress >= 1:
		return percent(p.Progress)
	}
	return fmt.Sprintf("%s (%s left)", percent(p.Progress), p.left())
}

// text is how far a job is, for a line; "" is not reported.
func (p *progress) text() string {
	switch {
	case p.Problem != "":
		return p.Problem
	case p.Progress == nil:
		return ""
	case p.RemainingSeconds == nil || *p.Progress >= 1:
		return percent(p.Progress)
	}
	return fmt.Sprintf("%s, about %s left", percent(p.Progress), p.left())
}

// left is the time that is left, short.
func (p *progress) left() string {
	return duration.HumanDuration(time.Duration(*p.RemainingSeconds) * time.Second)
}
