package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/user"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/training"
)

// Queues returns the Queues of a cluster, by name. Where it does not serve them, there are none
// and served is false.
func (c *Cluster) Queues(ctx context.Context, o Options) (list []*v1alpha1.Queue, served bool, err error) {
	api, err := c.Dynamic(o)
	if err != nil {
		return nil, false, err
	}
	found, err := api.Resource(v1alpha1.Queues).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, false, nil
	}
	if err := c.Failed("list queues", err); err != nil {
		return nil, true, err
	}
	for i := range found.Items {
		q := &v1alpha1.Queue{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Items[i].Object, q); err != nil {
			return nil, true, fmt.Errorf("read queue %s: %w", found.Items[i].GetName(), err)
		}
		list = append(list, q)
	}
	slices.SortFunc(list, func(a, b *v1alpha1.Queue) int { return strings.Compare(a.Name, b.Name) })
	return list, true, nil
}

// QueueSituation returns what quotas are counted from: what is given, with the namespaces of
// the cluster. The objects that own pods are read when users are counted.
func (c *Cluster) QueueSituation(ctx context.Context, o Options, list []*v1alpha1.Queue, nodes []*v1.Node, pods []*v1.Pod) (*queues.Situation, error) {
	api, err := c.Dynamic(o)
	if err != nil {
		return nil, err
	}
	spaces, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err := c.Failed("list namespaces", err); err != nil {
		return nil, err
	}
	owners := ownersOf(ctx, api)
	s := &queues.Situation{
		Queues: list, Namespaces: Pointers(spaces.Items), Nodes: nodes, Pods: pods, Owners: owners, Now: o.Time(),
		User: func(pod *v1.Pod) string { return user.CountedAs(request.UserOf(pod, owners)) },
	}
	s.Kueue = sync.OnceValue(func() bool {
		k := queues.NewKueue(c.Discovery().ServerResourcesForGroupVersion)
		k.Ask()
		return k.Runs()
	})
	lines := sync.OnceValue(func() queues.LinePriorities { return linePriorities(ctx, api) })
	s.Line = func(o metav1.Object) *int32 { return lines().Of(o, owners) }
	s.Classes = sync.OnceValue(func() *queues.PriorityClasses { return c.priorityClasses(ctx, s) })
	s.Suspended = queues.InTurn(c.resumable(ctx, api), s.Classes)
	return s, nil
}

// resumable returns the objects that can be resumed in their turn. Those of kinds that cannot be read, or are not
// served, are left out.
func (c *Cluster) resumable(ctx context.Context, api dynamic.Interface) (out []metav1.Object) {
	if jobs, err := c.BatchV1().Jobs("").List(ctx, metav1.ListOptions{ResourceVersion: "0"}); err == nil {
		for i := range jobs.Items {
			out = append(out, &jobs.Items[i])
		}
	}
	for _, kind := range training.Kinds() {
		found, err := api.Resource(training.ResourceOf(kind)).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			continue
		}
		for i := range found.Items {
			if job, err := training.Decode(kind, found.Items[i].Object); err == nil {
				out = append(out, job)
			}
		}
	}
	return out
}

// priorityClasses returns the PriorityClasses that pods can get; nil if they cannot be read: all count
// with priority 0 then.
func (c *Cluster) priorityClasses(ctx context.Context, s *queues.Situation) *queues.PriorityClasses {
	list, err := c.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	return queues.NewPriorityClasses(list.Items, s.Queues, s.Namespaces)
}

// linePriorities reads Kueue's WorkloadPriorityClasses, as far as there are some and they may be read.
func linePriorities(ctx context.Context, api dynamic.Interface) queues.LinePriorities {
	for _, resource := range queues.LineResources {
		found, err := api.Resource(resource).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			continue
		}
		list := make([]*unstructured.Unstructured, len(found.Items))
		for i := range found.Items {
			list[i] = &found.Items[i]
		}
		return queues.NewLinePriorities(list)
	}
	return nil
}

// Owners finds the objects that own pods, as far as they may be read. It is not safe for concurrent use.
func (c *Cluster) Owners(ctx context.Context, o Options) request.Owners {
	api, err := c.Dynamic(o)
	if err != nil {
		return nil
	}
	return ownersOf(ctx, api)
}

func ownersOf(ctx context.Context, api dynamic.Interface) request.Owners {
	return (&owners{ctx: ctx, api: api, kinds: map[schema.GroupVersionResource]map[string]metav1.Object{}}).of
}

// owners reads the objects that own pods, all of a kind when the first is asked for.
type owners struct {
	ctx   context.Context //nolint:containedctx // it lives as long as one read
	api   dynamic.Interface
	kinds map[schema.GroupVersionResource]map[string]metav1.Object // by namespace/name
}

// of returns the object that a reference names; nil is that it is not there, or cannot be
// read.
func (o *owners) of(namespace string, ref *metav1.OwnerReference) metav1.Object {
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || ref.APIVersion == "" {
		return nil
	}
	resource, _ := meta.UnsafeGuessKindToResource(group.WithKind(ref.Kind))
	all, known := o.kinds[resource]
	if !known {
		all = map[string]metav1.Object{}
		if found, err := o.api.Resource(resource).List(o.ctx, metav1.ListOptions{ResourceVersion: "0"}); err == nil {
			for i := range found.Items {
				all[found.Items[i].GetNamespace()+"/"+found.Items[i].GetName()] = &found.Items[i]
			}
		}
		o.kinds[resource] = all
	}
	return all[namespace+"/"+ref.Name]
}
