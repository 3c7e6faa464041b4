package client

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/exporter"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/view"
)

// livePods leaves out pods that ended: they hold nothing, and may be many.
const livePods = "status.phase!=" + string(v1.PodSucceeded) + ",status.phase!=" + string(v1.PodFailed)

// FleetView is a cluster's GPUs and the pods that publish readings of them.
type FleetView struct {
	view.View
	Exporters []*v1.Pod
	Nodes     []*v1.Node
}

// Read lists nodes and live pods and counts them. users has it read the user of each pod that
// holds GPUs, too, where that is not on the pod itself.
func (c *Cluster) Read(ctx context.Context, selector string, users bool) (FleetView, error) {
	nodes, pods, err := c.fleet(ctx, selector)
	if err != nil {
		return FleetView{}, err
	}
	if users {
		c.NameUsers(ctx, pods)
	}
	v := view.Cluster(nodes, pods)
	if offers := c.slices(ctx); len(offers) > 0 {
		dra := devices.ReadDRA(offers, nil)
		v.SetDRA(&dra, nodes)
	}
	return FleetView{View: v, Exporters: exporter.Exporters(pods), Nodes: nodes}, nil
}

// fleet reads the nodes and the pods of a FleetView.
func (c *Cluster) fleet(ctx context.Context, selector string) ([]*v1.Node, []*v1.Pod, error) {
	if c.mirror != nil {
		return c.mirror.read(ctx, c)
	}
	trim := newTrimmer()
	return c.nodesAndPods(ctx, selector, func(p *v1.Pod) *v1.Pod {
		if !ofGPUs(p) {
			return nil
		}
		out := *p // the rest of its page can be freed
		return trim.pod(&out)
	})
}

// ofGPUs reports whether a pod holds GPUs, or says something of them.
func ofGPUs(p *v1.Pod) bool {
	return len(request.Of(p)) > 0 || len(request.Parts(p)) > 0 || p.Annotations[api.AnnotationDevices] != "" || len(exporter.Exporters([]*v1.Pod{p})) > 0
}

// NodesAndPods lists nodes and live pods at once, page by page.
func (c *Cluster) NodesAndPods(ctx context.Context, selector string) ([]*v1.Node, []*v1.Pod, error) {
	return c.nodesAndPods(ctx, selector, unsigned)
}

// Holders is NodesAndPods without what only kubelets read of pods that have a node, and
// with resources that pods share: they must not be changed. It is for large clusters.
func (c *Cluster) Holders(ctx context.Context, selector string) ([]*v1.Node, []*v1.Pod, error) {
	return c.nodesAndPods(ctx, selector, newTrimmer().pod)
}

func (c *Cluster) nodesAndPods(ctx context.Context, selector string, keep func(*v1.Pod) *v1.Pod) ([]*v1.Node, []*v1.Pod, error) {
	if err := checkSelector(selector); err != nil {
		return nil, nil, err
	}
	var nodes []*v1.Node
	var pods []*v1.Pod
	var nodesErr, podsErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		nodes, nodesErr = paged(metav1.ListOptions{LabelSelector: selector}, func(o metav1.ListOptions) ([]v1.Node, string, error) {
			list, err := c.CoreV1().Nodes().List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return list.Items, list.Continue, nil
		}, trimNode)
	})
	wg.Go(func() {
		pods, podsErr = c.pods(ctx, metav1.NamespaceAll, livePods, keep)
	})
	wg.Wait()
	if err := c.Failed("list nodes", nodesErr); err != nil {
		return nil, nil, err
	}
	if err := c.Failed("list pods", podsErr); err != nil {
		return nil, nil, err
	}
	return nodes, pods, nil
}

func checkSelector(selector string) error {
	if _, err := labels.Parse(selector); err != nil {
		return term.Usagef("--selector %q: %w", selector, err)
	}
	return nil
}

// PodsOf lists the pods of a namespace that are wanted, as they are.
func (c *Cluster) PodsOf(ctx context.Context, namespace string, wanted func(*v1.Pod) bool) ([]*v1.Pod, error) {
	return c.pods(ctx, namespace, "", func(p *v1.Pod) *v1.Pod {
		if !wanted(p) {
			return nil
		}
		return p.DeepCopy() // the rest of its page can be freed
	})
}

func (c *Cluster) pods(ctx context.Context, namespace, fields string, keep func(*v1.Pod) *v1.Pod) ([]*v1.Pod, error) {
	return paged(metav1.ListOptions{FieldSelector: fields}, func(o metav1.ListOptions) ([]v1.Pod, string, error) {
		list, err := c.CoreV1().Pods(namespace).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return list.Items, list.Continue, nil
	}, keep)
}

// Pointers returns pointers to the elements of a list.
func Pointers[T any](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}
