package serving

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// measure writes on each pod that has become ready for the first time how long that took, and counts it. Pods that were ready before this
// process has seen them have no such time: they may have been unready in between.
func (p *pass) measure(ctx context.Context) error {
	for _, pod := range p.all() {
		if pod.Annotations[api.AnnotationStartedIn] != "" {
			continue
		}
		if condition(pod, corev1.PodReady).Status != corev1.ConditionTrue {
			p.mem.starting[pod.UID] = true
			continue
		}
		if !p.mem.starting[pod.UID] {
			continue
		}
		times := objects.TimesOf(pod)
		if s, ok := rules.StartOf(&times); ok {
			if err := p.annotate(ctx, pod, api.AnnotationStartedIn, fmt.Sprintf("%q", s)); err != nil {
				return fmt.Errorf("write how long pod %s took to start: %w", pod.Name, err)
			}
			count(s)
		}
		delete(p.mem.starting, pod.UID)
	}
	return nil
}
