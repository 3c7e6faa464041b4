package idle

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	rules "berth.dev/berth/core/idle"
	"berth.dev/berth/kube/request"
	objects "berth.dev/berth/kube/training"
)

// hubPods selects the pods of a JupyterHub's users, as KubeSpawner labels them. They are no Notebooks: a
// policy of their namespace or in their annotations applies to them, the process's own
// does not, and one is stopped by deleting it, as the hub does itself. The loop keeps
// their warnings in memory, so the next process warns again.
func hubPods() labels.Set { return labels.Set{api.LabelComponent: api.ComponentHubServer} }

// hubServer is why the server of a hub's pod is not asked.
const hubServer = "only its hub may ask its server"

// watchHubs makes a cache of the pods of hubs' users, which runs with the manager.
func watchHubs(mgr manager.Manager) (cache.Cache, error) {
	pods, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Label: hubPods().AsSelector(), Transform: cache.TransformStripManagedFields()},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch the pods of JupyterHubs: %w", err)
	}
	return pods, mgr.Add(pods)
}

// hubSubjects returns the pods of hubs' users that live.
func (l *loop) hubSubjects(ctx context.Context) ([]subject, error) {
	if l.hubs == nil {
		return nil, nil
	}
	var list corev1.PodList
	if err := l.hubs.List(ctx, &list, client.MatchingLabels(hubPods())); err != nil {
		return nil, fmt.Errorf("list the pods of JupyterHubs: %w", err)
	}
	var out []subject
	for i := range list.Items {
		p := &list.Items[i]
		ended := request.Ended(p)
		if p.DeletionTimestamp != nil || ended || p.Annotations[api.AnnotationHubUser] == "" {
			continue
		}
		n := &kubeflow.Notebook{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Annotations: p.Annotations}}
		out = append(out, subject{Notebook: n, pod: p, hub: true})
	}
	return out, nil
}

// key names a subject among the entries of the loop. No Notebook's name has a slash.
func (s *subject) key() types.NamespacedName {
	key := client.ObjectKeyFromObject(s.Notebook)
	switch {
	case s.hub:
		key.Name = "pods/" + key.Name
	case s.job != nil:
		key.Name = string(s.job.kind()) + "/" + key.Name
	}
	return key
}

// unwritten reports whether what is decided about a subject is kept in memory, and not in annotations of it.
func (s *subject) unwritten() bool { return s.hub || s.job != nil }

// state is what is known of a subject before a look.
func (s *subject) state(ready bool, since time.Time) rules.State {
	state := rules.State{
		Ready: ready, Since: since, Started: request.BoundAt(s.pod), Track: s.entry.track,
		Activity: timeOf(s.Annotations, api.AnnotationLastActivity), StopsAt: timeOf(s.Annotations, api.AnnotationNotebookStopsAt),
	}
	if s.unwritten() {
		state.Activity, state.StopsAt = s.entry.activity, s.entry.stopsAt
	}
	return state
}

// stopUnwritten keeps what is decided about a subject that is unwritten, and deletes the pod or suspends the job if it is to stop.
func (l *loop) stopUnwritten(ctx context.Context, s subject, d rules.Decision) error {
	e := s.entry
	if (d.Record || d.Do != rules.Nothing) && !d.Activity.IsZero() {
		e.activity = d.Activity
	}
	if d.Forget {
		e.activity = time.Time{}
	}
	switch d.Do {
	case rules.Nothing:
	case rules.Warn, rules.Move:
		e.stopsAt = d.StopsAt
	case rules.Clear:
		e.stopsAt = time.Time{}
	case rules.Stop:
		if s.job != nil {
			return l.suspend(ctx, s, d)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.pod.Namespace, Name: s.pod.Name}}
		return l.writer.Delete(ctx, pod, client.Preconditions{UID: &s.pod.UID})
	}
	return nil
}

// keep and restart are what to do to keep a subject running, and to start it again.
func (s *subject) keep() string {
	kind := "notebook"
	if s.hub {
		kind = "pod"
	}
	return fmt.Sprintf("kubectl annotate --overwrite %s %s -n %s %s=never", kind, s.Name, s.Namespace, api.AnnotationNotebookIdleAfter)
}

func (s *subject) restart() string {
	if s.hub {
		return "start it again in JupyterHub"
	}
	return fmt.Sprintf("to start it: kubectl annotate notebook %s -n %s %s-", s.Name, s.Namespace, api.AnnotationStopped)
}

// about is the object that events of a subject are about.
func (s *subject) about() client.Object {
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}
	if s.hub {
		return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta}
	}
	if s.job != nil {
		o := objects.New(s.job.kind())
		o.SetNamespace(meta.Namespace)
		o.SetName(meta.Name)
		o.SetUID(meta.UID)
		o.SetResourceVersion(meta.ResourceVersion)
		o.GetObjectKind().SetGroupVersionKind(objects.KindOf(string(s.job.kind())))
		return o
	}
	return &kubeflow.Notebook{TypeMeta: metav1.TypeMeta{APIVersion: kubeflow.GroupVersion.String(), Kind: kubeflow.Kind}, ObjectMeta: meta}
}
