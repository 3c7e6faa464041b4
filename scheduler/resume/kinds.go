package resume

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/training"
	"berth.dev/berth/scheduler/quota/informer"
)

// jobs returns the kind of Jobs, which are not followed yet.
func jobs(client kubernetes.Interface) *kind {
	return &kind{
		name:    "Job",
		suspend: func(is bool) map[string]any { return map[string]any{"suspend": is} },
		patch: func(ctx context.Context, namespace, name string, patch []byte) (metav1.Object, error) {
			return client.BatchV1().Jobs(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		},
	}
}

// trainingJobs returns a kind of training jobs, which are not followed yet.
func (r *Resumer) trainingJobs(name string) *kind {
	return &kind{
		name:    name,
		suspend: func(is bool) map[string]any { return training.Suspend(name, is) },
		patch: func(ctx context.Context, namespace, object string, patch []byte) (metav1.Object, error) {
			u, err := r.Dynamic.Resource(training.ResourceOf(name)).Namespace(namespace).Patch(ctx, object, types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				return nil, err
			}
			return training.Decode(name, u.Object)
		},
	}
}

// watch has an informer feed a kind. It is to be started by the caller.
func (r *Resumer) watch(k *kind, from cache.SharedIndexInformer) error {
	k.store = from.GetStore()
	changed := func(obj any) { r.changed(k, obj) }
	if err := from.SetTransform(queues.Slim); err != nil {
		return err
	}
	registered, err := from.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }, DeleteFunc: changed,
	})
	if err == nil {
		k.synced = registered.HasSynced
	}
	return err
}

// open begins to follow a kind of training jobs.
func (r *Resumer) open(ctx context.Context, k *kind) error {
	from := dynamicinformer.NewFilteredDynamicInformer(r.Dynamic, training.ResourceOf(k.name), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	err := r.watch(k, from)
	if err == nil {
		go from.RunWithContext(ctx)
	}
	return err
}

// training follows the kinds of training jobs that are served now, which it returns, and others from when they are.
func (r *Resumer) training(ctx context.Context) (now []*kind, err error) {
	if r.Dynamic == nil {
		return nil, nil
	}
	for _, name := range training.Kinds() {
		k := r.trainingJobs(name)
		if _, served := informer.Served(ctx, r.Dynamic, training.ResourceOf(name)); served {
			if err := r.open(ctx, k); err != nil {
				return nil, err
			}
			now = append(now, k)
			continue
		}
		go func() {
			if _, ok := informer.AwaitServed(ctx, r.Dynamic, training.ResourceOf(name)); !ok {
				return
			}
			if err := r.open(ctx, k); err != nil {
				klog.FromContext(ctx).Error(err, "Suspended objects are not resumed", "kind", k.name)
				return
			}
			cache.WaitForCacheSync(ctx.Done(), k.synced)
			r.poke()
		}()
	}
	return now, nil
}
