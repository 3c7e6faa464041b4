package training

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/trainer"
	rules "berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
	"berth.dev/berth/kube/trainjob"
)

// How long a new job waits for its runtime, as the objects of one file are created in any order, and how often it is looked
// for.
const (
	awaitRuntime = 10 * time.Second
	lookAgain    = time.Second
)

// keepRuntime writes the runtime of a TrainJob on the job, from which it is read from then on. invalid is why the job cannot run.
func (p *pass) keepRuntime(ctx context.Context, j *rules.Job) (again time.Duration, invalid, err error) {
	t, ok := p.object.(*trainer.TrainJob)
	if !ok || !j.Ours() || j.Status.Ended() {
		return 0, nil, nil
	}
	kind, name, invalid := trainjob.Ref(t)
	if invalid != nil {
		return 0, invalid, nil
	}
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(trainer.GroupVersion.WithKind(kind))
	key := client.ObjectKey{Name: name}
	if kind == trainer.KindRuntime {
		key.Namespace = t.Namespace
	}
	err = p.live.Get(ctx, key, found)
	switch {
	case apierrors.IsNotFound(err) && p.now().Before(t.CreationTimestamp.Add(awaitRuntime)):
		return lookAgain, nil, nil
	case apierrors.IsNotFound(err):
		return 0, trainjob.Absent(t), nil
	case err != nil:
		return 0, nil, fmt.Errorf("read %s %s: %w", kind, name, err)
	}
	spec, _ := found.Object["spec"].(map[string]any)
	text, err := trainjob.Keep(t, spec)
	if objects.NotSupported(err) {
		return 0, err, nil
	}
	if err == nil {
		err = p.annotate(ctx, map[string]any{api.AnnotationRuntime: text})
	}
	if err != nil {
		return 0, nil, fmt.Errorf("keep %s %s on the job: %w", kind, name, err)
	}
	return 0, nil, nil // the change of the job leads to the next pass
}
