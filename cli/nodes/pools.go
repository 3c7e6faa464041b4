package nodes

import (
	"io"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/pool"
)

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
		if _, err := term.Printf(w, "pool %s: %s of at most %d, %s\n", g.Name, term.Count(g.Nodes, "node"), g.Max, g); err != nil {
			return err
		}
	}
	return nil
}
