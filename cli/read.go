package cli

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/kube/exporter"
	"berth.dev/berth/kube/view"
)

// livePods leaves out pods that ended: they hold nothing, and may be many.
const livePods = "status.phase!=" + string(v1.PodSucceeded) + ",status.phase!=" + string(v1.PodFailed)

// fleetView is a cluster's GPUs and the pods that publish readings of them.
type fleetView struct {
	view.View
	exporters []*v1.Pod
	nodes     []*v1.Node
}

// read lists nodes and live pods and counts them.
func (c *cluster) read(ctx context.Context, selector string) (fleetView, error) {
	nodes, pods, err := c.list(ctx, selector)
	if err != nil {
		return fleetView{}, err
	}
	return fleetView{View: view.Cluster(nodes, pods), exporters: exporter.Exporters(pods), nodes: nodes}, nil
}

// list lists nodes and live pods at once, from the API server's cache.
func (c *cluster) list(ctx context.Context, selector string) ([]*v1.Node, []*v1.Pod, error) {
	if _, err := labels.Parse(selector); err != nil {
		return nil, nil, usagef("--selector %q: %w", selector, err)
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
	if err := c.failed("list nodes", nodesErr); err != nil {
		return nil, nil, err
	}
	if err := c.failed("list pods", podsErr); err != nil {
		return nil, nil, err
	}
	return pointers(nodes.Items), pointers(pods.Items), nil
}

func pointers[T any](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}
