package serving

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// measure writes on each pod that has become ready for the first time how long that took, and counts it. Pods that were ready before this
// process has seen them have no such time: they may have been unready in between.
func (p *pass) measure(ctx context.Context) error {
	here := map[types.UID]bool{}
	for _, pod := range p.pods {
		here[pod.UID] = true
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
			change := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, pod.UID, api.AnnotationStartedIn, s.String())
			at := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
			if err := p.client.Patch(ctx, at, client.RawPatch(types.MergePatchType, change), client.FieldOwner(Name)); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("write how long pod %s took to start: %w", pod.Name, err)
			}
			count(s)
		}
		delete(p.mem.starting, pod.UID)
	}
	for uid := range p.mem.starting {
		if !here[uid] {
			delete(p.mem.starting, uid)
		}
	}
	return nil
}
