package idle_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/idle"
	rules "berth.dev/berth/core/idle"
)

// memory is a cache of notebooks and their pods, which it hands out as they are.
type memory struct {
	client.Client // writes are not expected
	notebooks     []kubeflow.Notebook
	pods          map[client.ObjectKey]*corev1.Pod
	namespace     map[string]string // its annotations
}

func (m *memory) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if list, ok := list.(*kubeflow.NotebookList); ok { // of other kinds there is none
		list.Items = append([]kubeflow.Notebook(nil), m.notebooks...)
	}
	return nil
}

func (m *memory) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *corev1.Pod:
		if p := m.pods[key]; p != nil {
			*into = *p
			return nil
		}
	case *metav1.PartialObjectMetadata:
		into.Annotations = m.namespace
		return nil
	}
	return apierrors.NewNotFound(kubeflow.Resource.GroupResource(), key.Name)
}

// BenchmarkPass is one pass over 1,000 notebooks that run: nobody looks at them, or
// all of them are looked at and nothing has happened.
func BenchmarkPass(b *testing.B) {
	for name, after := range map[string]string{"never": "", "idle": "8h"} {
		b.Run(name, func(b *testing.B) {
			m := &memory{pods: map[client.ObjectKey]*corev1.Pod{}, namespace: map[string]string{api.AnnotationNotebookIdleAfter: after}}
			s := &stage{now: start, kernel: map[string]string{}, activity: map[string]time.Time{}, gauged: rules.OK}
			for i := range 1000 {
				n := named(fmt.Sprintf("n%d", i), nil)
				if after != "" {
					n.Annotations = map[string]string{api.AnnotationLastActivity: start.Format(time.RFC3339)}
				}
				m.notebooks = append(m.notebooks, *n)
				m.pods[client.ObjectKey{Namespace: ns, Name: n.Name + "-0"}] = podOf(n.Name, corev1.ConditionTrue)
				s.kernel[n.Name] = "idle"
			}
			loop := idle.NewLoop(m, s, idle.Options{Default: rules.Off(), Prober: s, Now: s.time})
			for b.Loop() {
				s.now = s.now.Add(time.Minute)
				if s.now.Sub(start) > 7*time.Hour {
					s.now = start // before anybody is warned
				}
				loop.Pass(context.Background())
			}
			if s.writes > 0 {
				b.Errorf("%d writes", s.writes)
			}
		})
	}
}
