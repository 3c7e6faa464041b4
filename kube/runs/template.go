// Package runs reads how long pods run: what they declare, whose run times stand for theirs, and the ConfigMap in which
// run times are remembered.
package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// TemplateOf returns which pods run for about as long as a pod: those of the same namespace, user, kind of owner,
// images, and request for GPUs. The name is a hash: it tells readers neither users nor images.
func TemplateOf(pod *v1.Pod) queue.Template {
	gpus := request.GPUsText(pod)
	parts := []string{pod.Namespace, request.User(pod), request.OwnerOf(pod).Kind, gpus}
	for i := range pod.Spec.Containers {
		parts = append(parts, pod.Spec.Containers[i].Image)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return queue.Template{Name: hex.EncodeToString(sum[:8]), Class: gpus}
}

// Ended reports whether a pod that is gone, whose last state is pod, had ended by itself, and after how long. The scheduler
// sees no pods that have ended: to it they are gone without ever being deleted. One that was deleted, evicted, or that its node
// lost says nothing about how long such pods run.
func Ended(pod *v1.Pod, now time.Time) (ran time.Duration, ok bool) {
	began := request.Since(pod)
	disrupted := slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue
	})
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || disrupted || pod.Status.Reason == "Evicted" || now.Before(began) {
		return 0, false
	}
	return now.Sub(began), true
}

// Left returns how much longer a pod runs at a quantile of the runs that stand for it, from 0 to 1, and at most for as long as
// it declares. ok is false where nothing is known of it. One that does not run yet has all before it.
func Left(pod *v1.Pod, times *queue.RunTimes, quantile float64, now time.Time) (left time.Duration, ok bool) {
	ran := time.Duration(0)
	if began := request.Began(pod); !began.IsZero() {
		ran = max(0, now.Sub(began))
	}
	most := request.MostRunTime(pod)
	learned, ok := LeftOf(TemplateOf(pod), times, quantile, ran)
	if most > 0 && (!ok || most-ran < learned) {
		return max(most-ran, 0), true
	}
	return learned, ok
}

// LeftOf is Left of pods of a template that declare nothing and have run for a time. Run times of pods that ask for
// other GPUs are not used.
func LeftOf(t queue.Template, times *queue.RunTimes, quantile float64, ran time.Duration) (left time.Duration, ok bool) {
	of := times.Of(t)
	if of.Basis < queue.ClassBasis {
		return 0, false
	}
	return of.Left(max(ran, 0), quantile), true
}
