package smi

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"berth.dev/berth/core/gpu"
)

var topoFlags = flagSet{
	"-h": {name: "help"}, "--help": {name: "help"},
	"-i": {name: "id", value: true}, "--id": {name: "id", value: true},
	"-m": {name: "matrix"}, "--matrix": {name: "matrix"},
}

func topo(ctx context.Context, c *call, args []string) int {
	o, code := topoFlags.parse(c, args)
	if code != exitOK {
		return code
	}
	if o.has("help") || !o.has("matrix") {
		return c.text(help)
	}
	return c.loop(ctx, o, 0, 1, func(b *bytes.Buffer, v View, _ int) int {
		matrix(b, v)
		return exitOK
	})
}

// matrix answers topo -m. The cells are apart by tabs, as the real ones.
func matrix(b *bytes.Buffer, v View) {
	for _, d := range v.Devices {
		fmt.Fprintf(b, "\tGPU%d", d.GPU.Index)
	}
	b.WriteString("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n")
	for _, from := range v.Devices {
		fmt.Fprintf(b, "GPU%d", from.GPU.Index)
		for _, to := range v.Devices {
			b.WriteString("\t" + link(from.GPU, to.GPU))
		}
		numa := "N/A"
		if from.GPU.NUMANode >= 0 {
			numa = strconv.Itoa(from.GPU.NUMANode)
		}
		fmt.Fprintf(b, "\tN/A\t%s\t\tN/A\n", numa)
	}
	b.WriteString(`
Legend:

  X    = Self
  SYS  = Over PCIe and the link between NUMA nodes
  NODE = Over PCIe and the link between PCIe host bridges of one NUMA node
  NV#  = Over a bonded set of # NVLinks
`)
}

// link is how two GPUs reach each other. GPUs with MIG on have no NVLink.
func link(from, to gpu.GPU) string {
	p, _ := gpu.Find(from.Product)
	q, _ := gpu.Find(to.Product)
	links := min(p.NVLinks, q.NVLinks)
	switch {
	case from.Index == to.Index:
		return " X "
	case from.Clique != 0 && from.Clique == to.Clique && links > 0 && !from.MIGEnabled && !to.MIGEnabled:
		return "NV" + strconv.Itoa(links)
	case from.NUMANode == to.NUMANode:
		return "NODE"
	}
	return "SYS"
}
