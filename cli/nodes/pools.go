package nodes

import (
	"fmt"
	"io"
	"strings"

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

	IdleNodes []string `json:"idleNodes,omitempty"` // on which no GPU is held
	CanLose   int      `json:"canLose"`             // of these
}

func poolRows(pools []pool.Growth) []poolRow {
	out := make([]poolRow, len(pools))
	for i, g := range pools {
		out[i] = poolRow{Pool: g.Name, Nodes: g.Nodes, Min: g.Min, Max: g.Max, CanGrowBy: g.By, GPUs: g.GPUs.Count, Product: g.GPUs.Product, IdleNodes: g.Idle, CanLose: g.Spare()}
	}
	return out
}

// printPools writes a line for each pool below the nodes.
func printPools(w io.Writer, pools []pool.Growth) error {
	for i := range pools {
		g := &pools[i]
		if _, err := term.Printf(w, "pool %s: %s of at most %d, %s%s\n", g.Name, term.Count(g.Nodes, "node"), g.Max, g, spare(g)); err != nil {
			return err
		}
	}
	return nil
}

// spare says which nodes of a pool can go; "" is none.
func spare(g *pool.Growth) string {
	const most = 3
	names := strings.Join(g.Idle[:min(most, len(g.Idle))], ", ")
	if more := len(g.Idle) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	switch n := g.Spare(); n {
	case 0:
		return ""
	case len(g.Idle):
		return fmt.Sprintf("; %s can go, as its GPUs are free: %s", term.Count(n, "node"), names)
	default:
		return fmt.Sprintf("; %d of %d nodes can go, as their GPUs are free: %s", n, len(g.Idle), names)
	}
}
