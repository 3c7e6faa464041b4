package cli

import (
	"context"
	"io"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/kube/pool"
)

// growth tells how far the pools that the cluster declares can grow, those of a
// selector alone if it is not "". nodes are the cluster's, or with a selector those
// that it selects. Pools that cannot be read are left out, with a warning.
func (c *cluster) growth(ctx context.Context, o Options, selector string, nodes []*v1.Node) []pool.Growth {
	list, err := pool.Read(ctx, c)
	if err != nil {
		printf(o.Err, "warning: pools are omitted: %v\n", err)
		return nil
	}
	if wants, err := labels.Parse(selector); selector != "" && err == nil && len(list) > 0 {
		list = slices.DeleteFunc(list, func(p pool.Pool) bool { return !wants.Matches(labels.Set(p.Node().Labels)) })
		all, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			printf(o.Err, "warning: pools are omitted: %v\n", c.failed("list nodes", err))
			return nil
		}
		nodes = pointers(all.Items) // one of a pool counts whatever else it is labeled
	}
	return pool.Grow(list, nodes)
}

// poolRow is a pool in `berth nodes -o json`.
type poolRow struct {
	Pool      string `json:"pool"`
	Nodes     int    `json:"nodes"` // that it has
	Min       int    `json:"min"`
	Max       int    `json:"max"`
	CanGrowBy int    `json:"canGrowBy"`         // nodes
	GPUs      int    `json:"gpus"`              // of a node
	Product   string `json:"product,omitempty"` // of them, as it is declared
}

func poolRows(pools []pool.Growth) []poolRow {
	out := make([]poolRow, len(pools))
	for i, g := range pools {
		out[i] = poolRow{Pool: g.Name, Nodes: g.Nodes, Min: g.Min, Max: g.Max, CanGrowBy: g.By, GPUs: g.GPUs.Count, Product: g.GPUs.Product}
	}
	return out
}

// printPools writes a line for each pool below the nodes.
func printPools(w io.Writer, pools []pool.Growth) error {
	for i := range pools {
		g := &pools[i]
		if _, err := printf(w, "pool %s: %s of at most %d, %s\n", g.Name, countText(g.Nodes, "node"), g.Max, g); err != nil {
			return err
		}
	}
	return nil
}
