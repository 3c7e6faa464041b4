package training

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rules "berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// fieldManager is whose fields the API server takes what is written for.
const fieldManager = client.FieldOwner(Name)

// carryOut carries out a plan, in its order.
func (p *pass) carryOut(ctx context.Context, seen *rules.Observed, plan *rules.Plan) error {
	j := &seen.Job
	if plan.DeleteJob {
		err := p.jobs.Delete(ctx, p.object, client.Preconditions{UID: uid(p.object), ResourceVersion: &p.version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		return client.IgnoreNotFound(err)
	}
	if marks := objects.Marks(j, plan); len(marks) > 0 {
		if err := p.annotate(ctx, marks); err != nil {
			return fmt.Errorf("count the pods: %w", err)
		}
		j.Restarts, j.Round = plan.Restarts, plan.Round
	}
	if err := p.write(ctx, j, plan.Status); err != nil {
		return err
	}
	for _, e := range plan.Events {
		p.tell(e)
	}
	p.told(p.mem, seen)
	err := p.each(len(plan.DeletePods), func(i int) error {
		return p.remove(ctx, &corev1.Pod{}, plan.DeletePods[i].Name, plan.DeletePods[i].UID, "Pod")
	})
	if err != nil {
		return err
	}
	err = p.each(len(plan.ForgetPods), func(i int) error {
		return p.remove(ctx, &corev1.Pod{}, plan.ForgetPods[i].Name, plan.ForgetPods[i].UID, "Pod", client.GracePeriodSeconds(0))
	})
	if err != nil {
		return err
	}
	err = p.each(len(plan.DeleteServices), func(i int) error {
		return p.remove(ctx, &corev1.Service{}, plan.DeleteServices[i].Name, plan.DeleteServices[i].UID, "Service")
	})
	if err != nil {
		return err
	}
	if err := p.autoscale(ctx, j, plan.Autoscale); err != nil {
		return err
	}
	return p.create(ctx, j, plan)
}

// uid returns a pointer to the UID of an object.
func uid(o client.Object) *types.UID {
	u := o.GetUID()
	return &u
}

// write writes the status of a job if it is another one.
func (p *pass) write(ctx context.Context, j *rules.Job, s rules.Status) error {
	is, changed := objects.Status(p.object, j, &s)
	if !changed {
		return nil
	}
	// Not a merge patch: it would keep counts that are 0 now.
	raw, err := json.Marshal([]any{
		map[string]any{"op": "replace", "path": "/metadata/resourceVersion", "value": p.version},
		map[string]any{"op": "replace", "path": "/metadata/uid", "value": p.object.GetUID()},
		map[string]any{"op": "add", "path": "/status", "value": is},
	})
	if err != nil {
		return err
	}
	if err := p.wrote(p.jobs.Status().Patch(ctx, p.target(), client.RawPatch(types.JSONPatchType, raw), fieldManager)); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// annotate writes annotations of the job; nil removes one.
func (p *pass) annotate(ctx context.Context, marks map[string]any) error {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": p.version, "uid": p.object.GetUID(), "annotations": marks,
	}})
	if err != nil {
		return err
	}
	return p.wrote(p.jobs.Patch(ctx, p.target(), client.RawPatch(types.MergePatchType, raw), fieldManager))
}

// target returns an object to write to: that of the cache is not to be changed.
func (p *pass) target() objects.Object {
	p.written = p.kind.object()
	p.written.SetNamespace(p.object.GetNamespace())
	p.written.SetName(p.object.GetName())
	return p.written
}

// wrote notes the version that a write has led to. A job that is gone is not an error.
func (p *pass) wrote(err error) error {
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if v := p.written.GetResourceVersion(); v != p.version {
		p.mem.before, p.version = p.object.GetResourceVersion(), v
	}
	return nil
}

// remove deletes a child, if it is still the one that was seen.
func (p *pass) remove(ctx context.Context, o client.Object, name, of, kind string, how ...client.DeleteOption) error {
	o.SetNamespace(p.object.GetNamespace())
	o.SetName(name)
	u := types.UID(of)
	err := p.jobs.Delete(ctx, o, append(how, client.Preconditions{UID: &u})...)
	switch {
	case err == nil:
		p.tell(rules.Event{Reason: "SuccessfulDelete" + kind, Message: fmt.Sprintf("Deleted %s: %s", lower(kind), name)})
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	}
	return fmt.Errorf("delete %s %s: %w", lower(kind), name, err)
}

// create creates the Services and then the pods of a plan. Where one is refused it stops, notes why, and says so
// in an event; what was created stays, and holds nothing until all are there.
func (p *pass) create(ctx context.Context, j *rules.Job, plan *rules.Plan) error {
	p.mem.refused = rules.Queued{}
	err := p.each(len(plan.CreateServices), func(i int) error {
		o, err := objects.Service(p.object, j, plan.CreateServices[i])
		if err != nil {
			return err
		}
		return p.make(ctx, o, "Service")
	})
	if err == nil {
		var said sync.Once
		err = p.each(len(plan.CreatePods), func(i int) error {
			o, overwritten, err := objects.Pod(p.object, j, plan.CreatePods[i], p.o.Domain)
			if err != nil {
				return err
			}
			if overwritten {
				said.Do(func() {
					p.tell(rules.Event{Warning: true, Reason: "SettedPodTemplateRestartPolicy", Message: "Restart policy in pod template will be overwritten by restart policy in replica spec"})
				})
			}
			return p.make(ctx, o, "Pod")
		})
	}
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		p.mem.refused = rules.Queued{Waits: true, Reason: refused.reason, Message: refused.Error()}
		p.tell(rules.Event{Warning: true, Reason: refused.reason, Message: refused.Error()})
		return nil
	}
	return err
}

// refusal is a child that cannot be created as things are.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

// make creates a child.
func (p *pass) make(ctx context.Context, object map[string]any, kind string) error {
	u := &unstructured.Unstructured{Object: object}
	name := u.GetName()
	err := p.jobs.Create(ctx, u, fieldManager)
	switch {
	case err == nil:
		if kind != kindAutoscaler { // which look does not read
			p.created(p.mem, u.GetUID())
		}
		p.tell(rules.Event{Reason: "SuccessfulCreate" + kind, Message: fmt.Sprintf("Created %s: %s", lower(kind), name)})
		return nil
	case apierrors.IsAlreadyExists(err):
		there := &metav1.PartialObjectMetadata{}
		there.SetGroupVersionKind(u.GroupVersionKind())
		if err := p.live.Get(ctx, client.ObjectKeyFromObject(u), there); err != nil {
			return client.IgnoreNotFound(err)
		}
		if metav1.IsControlledBy(there, p.object) {
			written := &metav1.PartialObjectMetadata{TypeMeta: there.TypeMeta}
			if released, err := p.release(ctx, there, written, kind); err != nil || !released {
				return err // where it is not released, the cache does not have it yet, or it is being deleted
			}
		}
		return &refusal{"FailedCreate" + kind, fmt.Sprintf("Error creating: %s %s exists and belongs to something else: delete it, or create the job under another name", lower(kind), name)}
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return &refusal{"FailedCreate" + kind, "Error creating: " + err.Error()}
	}
	return fmt.Errorf("create %s %s: %w", lower(kind), name, err)
}
