package fleet

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// progressLine begins a line on the log of a program that reports its progress.
const progressLine = "berth-progress:"

// progress returns what the programs of a pod have reported of their progress by a time, "" for nothing, and wakes the pod for the next
// report. Programs that print the same again and again report nothing.
func (p *pod) progress(now time.Time) string {
	text, last := "", time.Time{}
	for _, c := range p.containers {
		if c.begun.IsZero() || c.hosted || c.plan.Every > 0 {
			continue
		}
		until := now
		if t := c.state.Terminated; t != nil {
			until = t.FinishedAt.Add(time.Second - 1)
		}
		if h := c.hung; h != nil && h.from.Before(until) {
			until = h.from
		}
		for _, s := range c.plan.Steps {
			ratio, ok := strings.CutPrefix(s.Text, progressLine)
			switch at := c.begun.Add(c.plan.since(s.After)); {
			case !ok:
			case !at.After(until) && !at.Before(last):
				text, last = strings.TrimSpace(ratio), at
			case c.running() && c.hung == nil && at.After(now):
				p.wake(at)
			}
		}
	}
	return text
}

// reporting returns the pod as it is to be written, with its progress, and whether that is another one than the API server has.
func (p *pod) reporting(now time.Time) (pod *v1.Pod, changed bool) {
	text := p.progress(now)
	if text == "" || p.api.Annotations[api.AnnotationProgress] == text {
		return p.api, false
	}
	out := p.api.DeepCopy()
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, api.AnnotationProgress, text)
	return out, true
}
