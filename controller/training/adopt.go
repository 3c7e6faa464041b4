package training

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	rules "berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// byOrphan is the index of pods and Services that no controller has, by the job that their labels name.
const byOrphan = "orphan"

// orphanOf is the index function of byOrphan.
func orphanOf(o client.Object) []string {
	if name := o.GetLabels()[kubeflow.LabelJobName]; name != "" && metav1.GetControllerOfNoCopy(o) == nil && o.GetDeletionTimestamp() == nil {
		return []string{name}
	}
	return nil
}

// errStale is that the cache is behind what this controller has written.
var errStale = errors.New("the cache is behind")

// adopt takes control of the pods and Services that no controller has and that core/training says are the job's. They are in seen
// then as all others.
func (p *pass) adopt(ctx context.Context, seen *rules.Observed) error {
	theirs := []client.ListOption{client.InNamespace(p.object.GetNamespace()), client.MatchingFields{byOrphan: p.object.GetName()}, client.UnsafeDisableDeepCopy}
	var pods corev1.PodList
	var services corev1.ServiceList
	if err := p.children.List(ctx, &pods, theirs...); err != nil {
		return fmt.Errorf("list the pods without a controller: %w", err)
	}
	if err := p.children.List(ctx, &services, theirs...); err != nil {
		return fmt.Errorf("list the Services without a controller: %w", err)
	}
	for i := range pods.Items {
		o := &pods.Items[i]
		pod, ok := objects.PodOf(p.kind.kind, o)
		if !ok || !seen.Job.AdoptsPod(&pod) || !objects.Labeled(p.kind.kind, p.object.GetName(), o.Labels) {
			continue
		}
		if taken, err := p.take(ctx, o, &corev1.Pod{}, "Pod", seen.Job.Round); err != nil || !taken {
			return err
		}
		pod.Round = seen.Job.Round
		seen.Pods = append(seen.Pods, pod)
		p.pods = append(p.pods, o)
	}
	for i := range services.Items {
		o := &services.Items[i]
		s, ok := objects.ServiceOf(p.kind.kind, o)
		if !ok || !seen.Job.Adopts(s.Member, s.Name) || !objects.Labeled(p.kind.kind, p.object.GetName(), o.Labels) {
			continue
		}
		if taken, err := p.take(ctx, o, &corev1.Service{}, "Service", 0); err != nil || !taken {
			return err
		}
		seen.Services = append(seen.Services, s)
	}
	return nil
}

// take makes the job the controller of an object, if both are still as they were seen. It reports false if the job is gone.
func (p *pass) take(ctx context.Context, seen, written client.Object, kind string, round int) (bool, error) {
	if !p.alive {
		now := p.kind.object()
		err := p.live.Get(ctx, client.ObjectKeyFromObject(p.object), now)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return false, fmt.Errorf("read the job before it takes control of %s: %w", seen.GetName(), err)
		case err != nil, now.GetUID() != p.object.GetUID(), now.GetDeletionTimestamp() != nil:
			return false, nil //nolint:nilerr // the job is gone, which is an answer
		}
		p.alive = true
	}
	meta := map[string]any{
		"uid": seen.GetUID(), "resourceVersion": seen.GetResourceVersion(),
		"ownerReferences": append(slices.Clone(seen.GetOwnerReferences()), *metav1.NewControllerRef(p.object, objects.KindOf(string(p.kind.kind)))),
	}
	if kind == "Pod" {
		mark := map[string]any{api.AnnotationRound: nil} // that of the job which it was of says nothing here
		if round > 0 {
			mark[api.AnnotationRound] = strconv.Itoa(round)
		}
		meta["annotations"] = mark
	}
	raw, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return false, err
	}
	written.SetNamespace(seen.GetNamespace())
	written.SetName(seen.GetName())
	err = p.jobs.Patch(ctx, written, client.RawPatch(types.MergePatchType, raw), fieldManager)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, errStale
	case err != nil:
		return false, fmt.Errorf("take control of %s %s: %w", lower(kind), seen.GetName(), err)
	}
	p.tell(rules.Event{Reason: "Adopted" + kind, Message: fmt.Sprintf("Took control of %s: %s", lower(kind), seen.GetName())})
	return true, nil
}

// release gives up control of a pod or Service whose labels no longer say that it belongs to the job, and reports whether it did: someone
// has taken it out of the job, to look at it or to keep it. With its labels it is taken again. A TrainJob releases none, as it adopts none.
func (p *pass) release(ctx context.Context, seen, written client.Object, kind string) (bool, error) {
	labeled := kind == kindAutoscaler || objects.Labeled(p.kind.kind, p.object.GetName(), seen.GetLabels())
	if labeled || p.kind.kind == rules.TrainJob || seen.GetDeletionTimestamp() != nil {
		return false, nil
	}
	others := slices.DeleteFunc(slices.Clone(seen.GetOwnerReferences()), func(r metav1.OwnerReference) bool { return r.UID == p.object.GetUID() })
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": seen.GetUID(), "resourceVersion": seen.GetResourceVersion(), "ownerReferences": others,
	}})
	if err != nil {
		return false, err
	}
	written.SetNamespace(seen.GetNamespace())
	written.SetName(seen.GetName())
	err = p.jobs.Patch(ctx, written, client.RawPatch(types.MergePatchType, raw), fieldManager)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, errStale
	case err != nil:
		return false, fmt.Errorf("release %s %s: %w", lower(kind), seen.GetName(), err)
	}
	delete(p.mem.pods, string(seen.GetUID())) // it is not lost: its program may well go on with the others
	p.tell(rules.Event{Reason: "Released" + kind, Message: fmt.Sprintf("Released %s: %s, whose labels no longer say that it belongs to the job", lower(kind), seen.GetName())})
	return true, nil
}
