package training

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	rules "berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// autoscale has the workers of an elastic job scaled by a HorizontalPodAutoscaler, or not. One that is refused holds the job up in
// nothing: an event says so, once.
func (p *pass) autoscale(ctx context.Context, j *rules.Job, wanted bool) error {
	if p.kind.kind != rules.PyTorchJob {
		return nil
	}
	there := &autoscalingv2.HorizontalPodAutoscaler{}
	err := p.children.Get(ctx, client.ObjectKeyFromObject(p.object), there)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the HorizontalPodAutoscaler: %w", err)
	}
	ours := err == nil && metav1.IsControlledBy(there, p.object)
	if !wanted {
		if ours {
			return p.remove(ctx, &autoscalingv2.HorizontalPodAutoscaler{}, there.Name, string(there.UID), kindAutoscaler)
		}
		return nil
	}
	want, err := objects.Autoscaler(p.object, j)
	switch {
	case err != nil:
		err = &refusal{"FailedCreate" + kindAutoscaler, err.Error()}
	case !ours:
		var object map[string]any
		if object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(want); err == nil {
			delete(object, "status")
			err = p.make(ctx, object, kindAutoscaler)
		}
	case !equality.Semantic.DeepEqual(there.Spec, want.Spec):
		err = p.change(ctx, there, want)
	}
	refused := (*refusal)(nil)
	if !errors.As(err, &refused) {
		p.mem.unscaled = ""
		return err
	}
	if p.mem.unscaled != refused.message {
		p.mem.unscaled = refused.message
		p.tell(rules.Event{Warning: true, Reason: refused.reason, Message: refused.message})
	}
	return nil
}

const kindAutoscaler = "HorizontalPodAutoscaler"

// change writes the spec of a HorizontalPodAutoscaler, if it is still as it was seen.
func (p *pass) change(ctx context.Context, there, want *autoscalingv2.HorizontalPodAutoscaler) error {
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": there.ResourceVersion, "uid": there.UID}, "spec": want.Spec,
	})
	if err != nil {
		return err
	}
	o := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: there.Namespace, Name: there.Name}}
	err = p.jobs.Patch(ctx, o, client.RawPatch(types.MergePatchType, raw), fieldManager)
	if apierrors.IsInvalid(err) {
		return &refusal{"FailedUpdate" + kindAutoscaler, "Error updating: " + err.Error()}
	}
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("change the HorizontalPodAutoscaler: %w", err)
	}
	return nil
}

// autoscalerChanged passes changes of HorizontalPodAutoscalers by others: Kubernetes writes their status all the time.
func autoscalerChanged() predicate.Predicate {
	spec := func(o client.Object) autoscalingv2.HorizontalPodAutoscalerSpec {
		if h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler); ok {
			return h.Spec
		}
		return autoscalingv2.HorizontalPodAutoscalerSpec{}
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(spec(e.ObjectOld), spec(e.ObjectNew))
		},
	}
}
