package training

import (
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	rules "berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// mostWrites is how many writes of one pass are under way at once.
const mostWrites = 16

// each calls do with 0 to n-1: one, then two, then four, and so on at once, as most
// errors are the same for all and one is enough to learn of them. It returns the first error.
func (p *pass) each(n int, do func(int) error) error {
	for done, size := 0, 1; done < n; size = min(2*size, mostWrites) {
		var g errgroup.Group
		for i := done; i < min(done+size, n); i++ {
			g.Go(func() error { return do(i) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
		done += size
	}
	return nil
}

// tell adds an event about the job.
func (p *pass) tell(e rules.Event) {
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	p.events.Event(p.regarding(), kind, e.Reason, e.Message)
}

// regarding returns the job as events name it: an object from the cache does not say its kind.
func (p *pass) regarding() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: objects.ResourceOf(string(p.kind.kind)).GroupVersion().String(), Kind: string(p.kind.kind), Namespace: p.object.GetNamespace(), Name: p.object.GetName(),
		UID: p.object.GetUID(), ResourceVersion: p.object.GetResourceVersion(),
	}
}

func lower(s string) string { return strings.ToLower(s) }

// items returns the jobs of a list.
func (k *kind) items(list client.ObjectList) (out []objects.Object) {
	switch l := list.(type) {
	case *kubeflow.TFJobList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	case *kubeflow.PyTorchJobList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	case *trainer.TrainJobList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	}
	return out
}
