package can

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/kube/trainjob"
)

// runtime keeps the training runtime of a TrainJob on it, as the controller does when it first sees the job. The error
// says what is wrong with the job or its runtime.
func (j *judge) runtime(ctx context.Context, o *unstructured.Unstructured) error {
	if o.GetKind() != trainer.KindTrainJob || o.GetAnnotations()[api.AnnotationRuntime] != "" {
		return nil
	}
	t := &trainer.TrainJob{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, t); err != nil {
		return err
	}
	kind, name, err := trainjob.Ref(t)
	if err != nil {
		return err
	}
	found := j.runtimes[kind+" "+name]
	if found == nil {
		from := j.api.Resource(trainer.ClusterRuntimes).Get
		if kind == trainer.KindRuntime {
			from = j.api.Resource(trainer.Runtimes).Namespace(o.GetNamespace()).Get
		}
		found, err = from(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return trainjob.Absent(t)
		}
		if err != nil {
			return j.Failed("read "+kind+" "+name, err)
		}
	}
	spec, _, err := unstructured.NestedMap(found.Object, "spec")
	if err != nil {
		return err
	}
	text, err := trainjob.Keep(t, spec)
	if err != nil {
		return err
	}
	notes := o.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	notes[api.AnnotationRuntime] = text
	o.SetAnnotations(notes)
	return nil
}
