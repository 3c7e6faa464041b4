package client

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/exporter"
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

// Read lists nodes and live pods and counts them.
func (c *Cluster) Read(ctx context.Context, selector string) (FleetView, error) {
	nodes, pods, err := c.NodesAndPods(ctx, selector)
	if err != nil {
		return FleetView{}, err
	}
	return FleetView{View: view.Cluster(nodes, pods), Exporters: exporter.Exporters(pods), Nodes: nodes}, nil
}

// NodesAndPods lists nodes and live pods at once, from the API server's cache.
func (c *Cluster) NodesAndPods(ctx context.Context, selector string) ([]*v1.Node, []*v1.Pod, error) {
	if _, err := labels.Parse(selector); err != nil {
		return nil, nil, term.Usagef("--selector %q: %w", selector, err)
	}
	var nodes *v1.NodeList
	var pods *v1.PodList
	var nodesErr, podsErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		nodes, nodesErr = c.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	})
	wg.Go(func() {
		pods, podsErr = c.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: livePods, ResourceVersion: "0"})
	})
	wg.Wait()
	if err := c.Failed("list nodes", nodesErr); err != nil {
		return nil, nil, err
	}
	if err := c.Failed("list pods", podsErr); err != nil {
		return nil, nil, err
	}
	return Pointers(nodes.Items), Pointers(pods.Items), nil
}

// Pointers returns pointers to the elements of a list.
func Pointers[T any](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}
