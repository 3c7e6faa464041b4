package nodes

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/view"
)

// gpusCommand is `berth gpus`.
type gpusCommand struct {
	o        client.Options
	cluster  client.Flags
	output   term.Output
	selector string
	sortBy   string
	names    []string // of nodes; none is all
	watch    bool
}

// NewGPUs makes `berth gpus`.
func NewGPUs(o client.Options) *cobra.Command {
	g := &gpusCommand{o: o}
	cmd := &cobra.Command{
		Use:     "gpus [NODE...]",
		Aliases: []string{"gpu"},
		Short:   "Show every GPU and MIG device, and the pod that uses it",
		Long: "Show every GPU, or every MIG device of a partitioned GPU, which pod uses it, and since when. Devices are\n" +
			"known from Berth's scheduler or the kubelet; otherwise the index is - (-1 in JSON) and the UUID is unknown.",
		Example: "  berth gpus\n  berth gpus gpu-a100-1\n  berth gpus -n vision --sort-by holder\n" +
			"  berth gpus -o custom-columns=NODE:.node,GPU:.index,HOLDER:.holders[*].name",
		RunE: func(cmd *cobra.Command, args []string) error {
			g.names = args
			return g.run(cmd.Context())
		},
	}
	g.cluster.AddFlags(cmd, true)
	g.output.AddFlags(cmd, term.Rows{Kind: "GPUList", Row: Device{}})
	cmd.Flags().StringVarP(&g.selector, "selector", "l", "", "label selector for nodes")
	addSortBy(cmd, &g.sortBy, deviceHead)
	cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "watch, and print again after each change")
	return cmd
}

func (g *gpusCommand) run(ctx context.Context) error {
	if err := g.output.Check(); err != nil {
		return err
	}
	c, err := g.cluster.Connect(g.o)
	if err != nil {
		return err
	}
	show := func(w io.Writer) error {
		v, err := c.Read(ctx, g.selector, true)
		if err != nil {
			return err
		}
		return g.print(w, v.View)
	}
	if g.watch {
		return c.WatchFleet(ctx, g.o, g.selector, show)
	}
	return show(g.o.Out)
}

func (g *gpusCommand) print(w io.Writer, v view.View) error {
	if err := Named(g.names, v); err != nil {
		return err
	}
	rows := Devices(v, g.cluster.ShownNamespace())
	if len(g.names) > 0 {
		rows = slices.DeleteFunc(rows, func(r Device) bool { return !slices.Contains(g.names, r.Node) })
	}
	switch {
	case g.output.Object():
		return term.Write(w, &g.output, term.NewList("GPUList", rows))
	case g.output.Format == term.OutputName:
		for _, r := range rows {
			term.Printf(w, "gpu/%s/%s\n", r.Node, cmp.Or(r.id(), r.UUID))
		}
		return nil
	case len(rows) == 0 && g.cluster.ShownNamespace() != "":
		term.Printf(g.o.Err, "no pod of namespace %s uses a GPU\n", g.cluster.ShownNamespace())
		return nil
	case len(rows) == 0:
		term.PrintLine(g.o.Err, "no node has GPUs")
		return nil
	}
	wide := g.output.Format == term.OutputWide
	t := deviceTable(rows, g.o.Time(), wide)
	if err := t.Sort(g.sortBy, 0); err != nil {
		return err
	}
	return t.Write(w, g.output.Screen(g.o.Out), g.output.NoHeaders)
}

// Device is a GPU, or a MIG device of it, in `berth gpus -o json`.
type Device struct {
	Node        string   `json:"node"`
	Index       int      `json:"index"` // of the GPU; -1 is unknown
	UUID        string   `json:"uuid"`  // of the MIG device where there is one
	Product     string   `json:"product"`
	MemoryBytes int64    `json:"memoryBytes"` // 0 is unknown
	MIGProfile  string   `json:"migProfile"`  // "" is a whole GPU
	Healthy     bool     `json:"healthy"`
	Xid         int      `json:"xid,omitempty"`
	Shares      int      `json:"shares,omitempty"` // into which the device is divided
	Holders     []Holder `json:"holders"`

	// GPU is the UUID of the GPU itself.
	GPU string `json:"-"`
	// Free is the number of shares that no pod uses; 0 if only one namespace is shown.
	Free int `json:"-"`
}

// Holder is the pod that holds a device, or a part of it.
type Holder struct {
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	Pod         string `json:"pod"`
	Container   string `json:"container"`
	User        string `json:"user"`
	Since       string `json:"since"` // RFC 3339
	MilliGPU    int64  `json:"milliGPU"`
	MemoryBytes int64  `json:"memoryBytes"`
	Stuck       string `json:"stuck,omitempty"` // why its pod holds this and cannot run

	since    time.Time
	resource string
}

// id is the name of a GPU on its node as `berth sim` takes it, with the place
// of a MIG device after it; "" is not known.
func (r Device) id() string {
	if r.Index < 0 {
		return ""
	}
	if r.MIGProfile != "" {
		return strconv.Itoa(r.Index) + "/" + r.UUID
	}
	return strconv.Itoa(r.Index)
}

// Devices lists the devices of a view, node by node, and what is held there
// without a known device. A namespace leaves only what its pods hold.
func Devices(v view.View, namespace string) []Device {
	var out []Device
	add := func(r Device, holders []devices.Holder) {
		r.Holders = []Holder{}
		for _, h := range holders {
			if namespace == "" || h.Namespace == namespace {
				r.Holders = append(r.Holders, newHolder(h))
			}
		}
		if namespace == "" {
			r.Free = max(0, r.Shares-len(holders))
		}
		if namespace == "" || len(r.Holders) > 0 {
			out = append(out, r)
		}
	}
	for _, n := range v.Nodes {
		for _, g := range n.GPUs {
			row := Device{
				Node: n.Name, Index: g.Index, UUID: g.UUID, Product: g.Product, MemoryBytes: g.MemoryBytes,
				Healthy: g.Healthy, Xid: g.Xid, Shares: g.Shares, GPU: g.UUID,
			}
			if len(g.MIG) == 0 || len(g.Holders) > 0 {
				add(row, g.Holders)
			}
			for _, m := range g.MIG {
				part := row
				part.UUID, part.MIGProfile, part.MemoryBytes, part.Shares = m.UUID, m.Profile, m.MemoryBytes, m.Shares
				add(part, m.Holders)
			}
		}
		for _, h := range n.Unplaced {
			profile, _ := strings.CutPrefix(h.Resource, "nvidia.com/mig-")
			if profile == h.Resource {
				profile = ""
			}
			add(Device{Node: n.Name, Index: -1, UUID: h.UUID, Product: n.Product, MIGProfile: profile, Healthy: true, GPU: h.UUID}, []devices.Holder{h})
		}
	}
	return out
}

func newHolder(h devices.Holder) Holder {
	return Holder{
		Kind: h.Kind, Namespace: h.Namespace, Name: h.Name, Pod: h.Pod, Container: h.Container, User: h.User,
		Since: h.Since.UTC().Format(time.RFC3339), MilliGPU: h.MilliGPU, MemoryBytes: h.MemoryBytes, Stuck: h.Stuck,
		since: h.Since, resource: h.Resource,
	}
}

// deviceHead are the columns of deviceTable; -o wide has more.
var deviceHead = []string{"NODE", "INDEX", "PRODUCT", "MEMORY", "SHARE/PROFILE", "HEALTH", "HOLDER", "USER", "SINCE"}

// deviceTable has a line for each holder, and one for what is free of a device.
func deviceTable(rows []Device, now time.Time, wide bool) *term.Table {
	t := &term.Table{Head: slices.Clone(deviceHead), Gap: 2, Spare: []string{"MEMORY", "SINCE", "USER", "PRODUCT"}}
	if wide {
		t.Head = append(t.Head, "POD", "CONTAINER", "UUID")
	}
	var sick []bool
	line := func(r Device, share string, h Holder) {
		since := "-"
		if h.Name != "" {
			since = duration.HumanDuration(now.Sub(h.since))
		}
		index := "-"
		if r.Index >= 0 {
			index = strconv.Itoa(r.Index)
		}
		product := r.Product
		if !wide {
			product = gpu.ShortName(product)
		}
		cells := []string{r.Node, index, product, MemoryText(r.MemoryBytes), share, HealthText(r), HolderText(h), cmp.Or(h.User, "-"), since}
		if wide {
			cells = append(cells, cmp.Or(h.Pod, "-"), cmp.Or(h.Container, "-"), r.UUID)
		}
		t.Add(cells...)
		sick = append(sick, !r.Healthy)
	}
	for _, r := range rows {
		for _, h := range r.Holders {
			line(r, ShareText(r, h), h)
		}
		if free := FreeText(r); free != "" {
			line(r, free, Holder{})
		}
	}
	t.Alarm = func(row, column int) bool { return column == 5 && sick[row] }
	return t
}

// HolderText names a holder, and says why its pod cannot run if that is so; "-" is none.
func HolderText(h Holder) string {
	switch {
	case h.Name == "":
		return "-"
	case h.Stuck != "":
		return h.Namespace + "/" + h.Name + " (" + h.Stuck + ")"
	}
	return h.Namespace + "/" + h.Name
}

// ShareText is the part of a device that one holder has: "whole", "1/4", "1g.5gb",
// "6GiB" of its memory.
func ShareText(r Device, h Holder) string {
	switch {
	case r.Shares > 1:
		return shareCount(r, 1)
	case r.MIGProfile != "":
		return r.MIGProfile
	case h.MilliGPU < 1000 && r.MemoryBytes > 0 && h.MemoryBytes > 0 && h.MemoryBytes < r.MemoryBytes:
		return MemoryText(h.MemoryBytes)
	case h.MilliGPU < 1000:
		return term.MilliText(h.MilliGPU)
	}
	return "whole"
}

// FreeText is the part of a device that no pod holds; "" is none.
func FreeText(r Device) string {
	switch {
	case len(r.Holders) == 0 && r.Shares <= 1:
		return cmp.Or(r.MIGProfile, "whole")
	case r.Shares > 1 && r.Free > 0:
		return shareCount(r, r.Free)
	}
	return ""
}

func shareCount(r Device, n int) string {
	return strings.TrimSpace(fmt.Sprintf("%s %d/%d", r.MIGProfile, n, r.Shares))
}

// HealthText is "healthy", "unhealthy", or the Xid that made it so.
func HealthText(r Device) string {
	switch {
	case r.Healthy:
		return "healthy"
	case r.Xid != 0:
		return fmt.Sprintf("XID %d", r.Xid)
	}
	return "unhealthy"
}

// MemoryText is bytes in GiB with one decimal, where it is not zero.
func MemoryText(bytes int64) string {
	if bytes <= 0 {
		return "-"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/(1<<30)), ".0") + "GiB"
}
