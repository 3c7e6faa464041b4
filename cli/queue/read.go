package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/user"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// state is what is known of the queues of a cluster.
type state struct {
	queues []*v1alpha1.Queue // by name
	tree   *quota.Tree
	// count is nil where pods, nodes or namespaces cannot be listed; hidden says so.
	count     *queues.Count
	situation *queues.Situation
	pods      []*v1.Pod
	hidden    string
}

// read lists the queues, and counts what their pods hold.
func read(ctx context.Context, c *client.Cluster, o client.Options) (*state, error) {
	api, err := c.Dynamic(o)
	if err != nil {
		return nil, err
	}
	s := &state{}
	if s.queues, err = list(ctx, c, api, o); err != nil {
		return nil, err
	}
	specs, _ := queues.Specs(s.queues)
	s.tree = quota.NewTree(specs)
	nodes, pods, err := c.Holders(ctx, "")
	var spaces *v1.NamespaceList
	if err == nil {
		spaces, err = c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		err = c.Failed("list namespaces", err)
	}
	if apierrors.IsForbidden(err) {
		s.hidden = "amounts are those that the Queues report: you cannot list nodes, namespaces, or the pods of all namespaces"
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	owners := owners{ctx: ctx, api: api, kinds: map[schema.GroupVersionResource]map[string]metav1.Object{}}
	s.pods = pods
	s.situation = &queues.Situation{
		Queues: s.queues, Namespaces: client.Pointers(spaces.Items), Nodes: nodes, Pods: pods,
		User: func(pod *v1.Pod) string { return user.CountedAs(request.UserOf(pod, owners.of)) },
	}
	s.count = queues.Read(s.situation)
	s.tree = s.count.Book.Tree()
	return s, nil
}

// list returns the Queues of a cluster, by name.
func list(ctx context.Context, c *client.Cluster, api dynamic.Interface, o client.Options) ([]*v1alpha1.Queue, error) {
	found, err := api.Resource(v1alpha1.Queues).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("list queues on %s: this cluster does not serve Queues; install `%s controller`", c.Name, o.Name)
	}
	if err := c.Failed("list queues", err); err != nil {
		return nil, err
	}
	out := make([]*v1alpha1.Queue, len(found.Items))
	for i := range found.Items {
		out[i] = &v1alpha1.Queue{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Items[i].Object, out[i]); err != nil {
			return nil, fmt.Errorf("read queue %s: %w", found.Items[i].GetName(), err)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.Queue) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
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
	if err != nil {
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

// outside says which namespaces with GPU pods no queue takes; "" is none.
func (s *state) outside() string {
	if s.count == nil {
		return ""
	}
	spaces := map[string]int{}
	for _, pod := range s.pods {
		if request.Of(pod) != nil && s.count.QueueOf(pod).Queue == "" {
			spaces[pod.Namespace]++
		}
	}
	if len(spaces) == 0 {
		return ""
	}
	pods := 0
	var names []string
	for name, n := range spaces {
		names, pods = append(names, name), pods+n
	}
	slices.Sort(names)
	return fmt.Sprintf("%s with GPUs in no queue, without a quota: %s", term.Count(pods, "pod"), term.FitList("", names, term.PlainWidth/2))
}
