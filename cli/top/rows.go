package top

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/cli/nodes"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/exporter"
)

// Row is what one pod has of a GPU or MIG device, or what no pod has of it, in `berth top -o json`.
type Row struct {
	Node       string `json:"node"`
	Index      int    `json:"index"` // of the GPU; -1 is unknown
	UUID       string `json:"uuid"`  // of the MIG device where there is one
	Product    string `json:"product"`
	MIGProfile string `json:"migProfile"` // "" is a whole GPU
	Share      string `json:"share"`      // as berth gpus shows it
	Healthy    bool   `json:"healthy"`
	Xid        int    `json:"xid,omitempty"`

	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"` // of the holder; "" is none
	Pod       string `json:"pod"`
	User      string `json:"user"`
	Since     string `json:"since"` // RFC 3339

	Utilization     *float64 `json:"utilization"`     // ratio 0-1; null is unknown
	MemoryUsedBytes *int64   `json:"memoryUsedBytes"` // null is unknown
	MemoryBytes     int64    `json:"memoryBytes"`     // 0 is unknown
	PowerWatts      *float64 `json:"powerWatts"`      // of the GPU, in its first row; null in others, and if unknown

	holder, health, index string // as they are shown
	since                 time.Time
}

// rowsOf has the rows of devices, in their order, with what exporters say of them.
func rowsOf(list []nodes.Device, readings []exporter.Reading) []Row {
	of := newReader(readings)
	rows := []Row{}
	for i := range list {
		d := &list[i]
		for k := range d.Holders {
			rows = append(rows, of.row(d, nodes.ShareText(*d, d.Holders[k]), d.Holders[k]))
		}
		if free := nodes.FreeText(*d); free != "" {
			rows = append(rows, of.row(d, free, nodes.Holder{}))
		}
	}
	return rows
}

// reader finds the readings of devices.
type reader struct {
	gpus  map[string][]exporter.Reading // by UUID
	pods  map[string][]exporter.Reading // by namespace/name
	given map[string]bool               // GPUs whose power is in a row already
}

func newReader(list []exporter.Reading) *reader {
	r := &reader{map[string][]exporter.Reading{}, map[string][]exporter.Reading{}, map[string]bool{}}
	for _, one := range list {
		r.gpus[one.UUID] = append(r.gpus[one.UUID], one)
		if one.Pod != "" {
			r.pods[one.Namespace+"/"+one.Pod] = append(r.pods[one.Namespace+"/"+one.Pod], one)
		}
	}
	return r
}

func (r *reader) row(d *nodes.Device, share string, h nodes.Holder) Row {
	row := Row{
		Node: d.Node, Index: d.Index, UUID: d.UUID, Product: d.Product, MIGProfile: d.MIGProfile, Share: share, Healthy: d.Healthy, Xid: d.Xid,
		Kind: h.Kind, Namespace: h.Namespace, Name: h.Name, Pod: h.Pod, User: h.User, Since: h.Since, MemoryBytes: d.MemoryBytes,
		holder: nodes.HolderText(h), health: nodes.HealthText(*d), index: "-",
	}
	if h.MemoryBytes > 0 && h.MemoryBytes < d.MemoryBytes {
		row.MemoryBytes = h.MemoryBytes
	}
	if d.Index >= 0 {
		row.index = strconv.Itoa(d.Index)
	}
	row.since, _ = time.Parse(time.RFC3339, h.Since) // zero if nothing holds it
	if mine := r.of(d, &h); len(mine) > 0 {
		var ratio float64
		var memory int64
		known := 0
		for i := range mine {
			memory += mine[i].MemoryBytes
			if mine[i].UtilizationKnown {
				ratio, known = ratio+mine[i].Utilization, known+1
			}
		}
		row.MemoryUsedBytes = new(memory / int64(len(mine)))
		if known > 0 {
			row.Utilization = new(ratio / float64(known))
		}
	}
	watts := 0.0
	for _, one := range r.gpus[d.GPU] {
		watts = max(watts, one.PowerWatts)
	}
	if watts > 0 && !r.given[d.GPU] {
		r.given[d.GPU], row.PowerWatts = true, &watts
	}
	return row
}

// of returns the readings that a part of a device is the mean of: those that name its pod; else those that name none; and where the node
// does not say which devices a pod has, all that name the pod.
func (r *reader) of(d *nodes.Device, h *nodes.Holder) (mine []exporter.Reading) {
	var rest []exporter.Reading
	for _, one := range r.gpus[d.GPU] {
		switch {
		case one.Profile != d.MIGProfile:
		case one.Pod == "":
			rest = append(rest, one)
		case one.Pod == h.Pod && one.Namespace == h.Namespace:
			mine = append(mine, one)
		}
	}
	switch {
	case len(mine) > 0:
		return mine
	case len(r.gpus[d.GPU]) == 0 && h.Pod != "":
		return r.pods[h.Namespace+"/"+h.Pod]
	case h.Pod != "" && d.Shares > 1:
		return nil // what is left of a shared GPU is not what one of its pods does
	}
	return rest
}

// orders compare rows by a column, the least first; unknown is less than all.
var orders = []struct {
	name    string
	compare func(a, b *Row) int
}{
	{"node", func(a, b *Row) int { return cmp.Compare(a.Node, b.Node) }},
	{"util", func(a, b *Row) int { return known(a.Utilization, b.Utilization) }},
	{"memory", func(a, b *Row) int { return known(a.MemoryUsedBytes, b.MemoryUsedBytes) }},
	{"power", func(a, b *Row) int { return known(a.PowerWatts, b.PowerWatts) }},
	{"holder", func(a, b *Row) int { return cmp.Compare(a.holder, b.holder) }},
	{"user", func(a, b *Row) int { return cmp.Compare(a.User, b.User) }},
	{"since", func(a, b *Row) int { return a.since.Compare(b.since) }},
	{"product", func(a, b *Row) int { return cmp.Compare(a.Product, b.Product) }},
}

func known[T int64 | float64](a, b *T) int {
	switch {
	case a == b:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

// selection is which rows are shown, and in which order.
type selection struct {
	order  int // of orders
	down   bool
	held   bool   // only what pods hold
	filter string // words, all of which a row has to have
}

// of returns the rows of a selection; the order of equal ones stays.
func (s *selection) of(list []Row) []Row {
	var out []Row
	words := strings.Fields(strings.ToLower(s.filter))
	for i := range list {
		r := &list[i]
		text := strings.ToLower(strings.Join([]string{r.Node, r.Product, gpu.ShortName(r.Product), r.Share, r.Kind, r.holder, r.Pod, r.User, r.health, r.UUID}, " "))
		if (!s.held || r.Name != "") && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			out = append(out, *r)
		}
	}
	compare := orders[s.order].compare
	slices.SortStableFunc(out, func(a, b Row) int {
		if s.down {
			return compare(&b, &a)
		}
		return compare(&a, &b)
	})
	return out
}
