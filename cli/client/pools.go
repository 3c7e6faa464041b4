package client

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/pool"
)

// Growth reports how far the pools that the cluster declares can grow, those of a
// selector alone if it is not "". nodes are the cluster's, or with a selector those
// that it selects. Pools that cannot be read are left out, with a warning.
func (c *Cluster) Growth(ctx context.Context, o Options, selector string, nodes []*v1.Node) []pool.Growth {
	list, err := pool.Read(ctx, c)
	if err != nil {
		term.Printf(o.Err, "warning: pools are omitted: %v\n", err)
		return nil
	}
	if wants, err := labels.Parse(selector); selector != "" && err == nil && len(list) > 0 {
		list = slices.DeleteFunc(list, func(p pool.Pool) bool { return !wants.Matches(labels.Set(p.Node().Labels)) })
		all, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			term.Printf(o.Err, "warning: pools are omitted: %v\n", c.Failed("list nodes", err))
			return nil
		}
		nodes = Pointers(all.Items) // one of a pool counts whatever else it is labeled
	}
	return pool.Grow(list, nodes)
}
