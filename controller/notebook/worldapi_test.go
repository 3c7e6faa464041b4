package notebook_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// count notes a write, and says how it fails.
func (w *world) count(verb string, o client.Object) (before, after error) {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = strings.TrimPrefix(fmt.Sprintf("%T", o), "*")
		kind = kind[strings.LastIndexByte(kind, '.')+1:]
	}
	if e, ok := o.(*corev1.Event); ok {
		kind += " " + e.Reason
	}
	w.writes = append(w.writes, verb+" "+kind)
	if kind == w.forbid {
		return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, o.GetName(), errors.New("not for you")), nil
	}
	if w.breakAt == 0 || len(w.writes) != w.breakAt {
		return nil, nil
	}
	if w.breakHow == lost {
		return errBroken, nil
	}
	return nil, errBroken
}

func (w *world) create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	before, after := w.count("create", o)
	if before != nil {
		return before
	}
	o.SetUID(w.uid())
	o.SetGeneration(1)
	o.SetCreationTimestamp(metav1.NewTime(w.now))
	err := c.Create(ctx, o, opts...)
	if apierrors.IsAlreadyExists(err) {
		w.writes = w.writes[:len(w.writes)-1] // nothing was written
	}
	return errors.Join(err, after)
}

func (w *world) update(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
	before, after := w.count("update", o)
	if before != nil {
		return before
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok || u.GetKind() != "StatefulSet" {
		return errors.Join(c.Update(ctx, o, opts...), after)
	}
	var want, has appsv1.StatefulSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &want); err != nil {
		return err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), &has); err != nil {
		return err
	}
	if has.ResourceVersion != want.ResourceVersion {
		return apierrors.NewConflict(appsv1.Resource("statefulsets"), want.Name, errors.New("stale"))
	}
	u.SetUID(has.UID)
	u.SetGeneration(has.Generation)
	if !equality.Semantic.DeepEqual(want.Spec, has.Spec) {
		u.SetGeneration(has.Generation + 1)
	}
	u.SetCreationTimestamp(has.CreationTimestamp)
	return errors.Join(c.Update(ctx, o, opts...), after)
}

func (w *world) remove(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	before, after := w.count("delete", o)
	if before != nil {
		return before
	}
	var d client.DeleteOptions
	d.ApplyOptions(opts)
	if d.Preconditions == nil || d.Preconditions.UID == nil {
		w.t.Errorf("delete of %s without the UID of what was read", o.GetName())
	}
	var has corev1.Pod
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), &has); err != nil {
		return err
	}
	if has.UID != *d.Preconditions.UID {
		return apierrors.NewConflict(corev1.Resource("pods"), o.GetName(), errors.New("another UID"))
	}
	return errors.Join(c.Delete(ctx, o), after)
}

func (w *world) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	before, after := w.count("patch", o)
	if before != nil {
		return before
	}
	return errors.Join(c.Patch(ctx, o, p, opts...), after)
}

func (w *world) patchStatus(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	before, after := w.count("patch "+sub+" of", o)
	if before != nil {
		return before
	}
	return errors.Join(c.SubResource(sub).Patch(ctx, o, p, opts...), after)
}
