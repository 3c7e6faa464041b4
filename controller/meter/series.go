package meter

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/devices"
)

// The most series of a family that grows with what people do.
const (
	mostWaits  = 500  // of pods that wait: those that wait longest
	mostTotals = 2000 // of holders in counters: the first by name
)

// family is one metric, with the labels of its series.
type family struct {
	name, help string
	labels     []string
}

var (
	heldGPUs     = family{"berth_gpu_held", "Part of a GPU that a pod holds, in GPUs.", []string{"node", "gpu", "UUID", "product", "namespace", "pod", "kind", "workload", "user", "queue"}}
	gpuMemory    = family{"berth_gpu_memory_bytes", "Memory of a GPU.", []string{"node", "gpu", "UUID"}}
	gpuUnhealthy = family{"berth_gpu_unhealthy", "A GPU that is not given to pods, with its last Xid; 0 is none. Always 1.", []string{"node", "gpu", "UUID", "xid"}}
	nodeGPUs     = family{"berth_node_gpus", "GPUs of a node: labeled as being there, present, held, free, unhealthy.", []string{"node", "product", "state"}}
	nodeDevices  = family{"berth_node_gpu_devices", "GPUs, MIG devices, and shares that a node offers to pods: capacity, allocatable.", []string{"node", "kind"}}
	nodePriced   = family{"berth_node_priced", "Whether a price of a node is known.", []string{"node", "product"}}
	podWait      = family{"berth_gpu_pod_wait_seconds", "How long a pod that asks for GPUs has waited for a node.", []string{"namespace", "pod", "kind", "workload", "user", "queue", "reason"}}
	gpuSeconds   = family{"berth_gpu_seconds_total", "Time of GPUs that was held, idle, or stranded, since the ledger began.", []string{"namespace", "user", "queue", "product", "what"}}
	costTotal    = family{"berth_cost_usd_total", "What that cost, of what was priced in US dollars.", []string{"namespace", "user", "queue", "product", "what"}}
	budgetUsed   = family{"berth_queue_budget_used_ratio", "Part of the budget of a queue that is spent this month.", []string{"queue"}}
	budgetAhead  = family{"berth_queue_budget_forecast_ratio", "Part of the budget of a queue that will be spent by the end of the month.", []string{"queue"}}
	bookWritten  = family{"berth_ledger_written_timestamp_seconds", "When the ledger was last written.", nil}
	rowsLeft     = family{"berth_series_left_out", "Series of holders that are left out, as there are too many.", nil}
)

// page is metrics in the text format.
type page struct{ b []byte }

// family begins one.
func (p *page) family(f family) {
	kind := "gauge"
	if strings.HasSuffix(f.name, "_total") {
		kind = "counter"
	}
	p.b = append(p.b, "# HELP "+f.name+" "+f.help+"\n# TYPE "+f.name+" "+kind+"\n"...)
}

// series adds one; labels without a value are left out.
func (p *page) series(f family, value float64, labels ...string) {
	p.b = append(p.b, f.name...)
	open := byte('{')
	for i, v := range labels {
		if v == "" {
			continue
		}
		p.b = append(append(append(p.b, open), f.labels[i]...), `="`...)
		p.b = append(append(p.b, escapes.Replace(v)...), '"')
		open = ','
	}
	if open == ',' {
		p.b = append(p.b, '}')
	}
	p.b = append(strconv.AppendFloat(append(p.b, ' '), value, 'g', -1, 64), '\n')
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`) //nolint:gochecknoglobals // a constant

// Series returns who holds which GPUs, how nodes are, who waits, and what was charged, in Prometheus' text format. It returns nothing before the
// cluster has been read. The series that urgent alerts need come first: a reader with too little room leaves out the end.
func (m *Meter) Series(ctx context.Context, now time.Time) []byte {
	p := &page{}
	if at := m.written.Load(); at > 0 {
		p.family(bookWritten)
		p.series(bookWritten, float64(at)/1000)
	}
	m.mu.Lock()
	if m.tally == nil || !m.tally.current {
		m.mu.Unlock()
		return nil
	}
	m.tally.series(p, now)
	queues := m.tally.queues
	m.mu.Unlock()
	if list, _, err := m.standings(ctx, queues, now); err == nil {
		standings(p, list)
	}
	m.totals(ctx, p, now)
	return p.b
}

// series are those of what is now. Families come one after the other, so each node is counted once before.
func (t *tally) series(p *page, now time.Time) {
	var counted []devices.Node
	for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
		if n := devices.CountNode(t.nodes[name], slices.Collect(maps.Values(t.pods[name])), nil); n.Physical > 0 || labeled(t.nodes[name]) > 0 {
			counted = append(counted, n)
		}
	}
	p.family(gpuUnhealthy)
	eachGPU(counted, func(n *devices.Node, g *devices.GPU, index string) {
		if !g.Healthy {
			p.series(gpuUnhealthy, 1, n.Name, index, g.UUID, strconv.Itoa(g.Xid))
		}
	})
	p.family(nodeGPUs)
	for i := range counted {
		n := &counted[i]
		for _, s := range []struct {
			state string
			gpus  float64
		}{
			{"labeled", float64(labeled(t.nodes[n.Name]))},
			{"present", float64(n.Physical)},
			{"held", float64(n.Held) / 1000},
			{"free", float64(n.Free) / 1000},
			{"unhealthy", float64(n.Unhealthy)},
		} {
			p.series(nodeGPUs, s.gpus, n.Name, n.Product, s.state)
		}
	}
	p.family(nodeDevices)
	for i := range counted {
		n := t.nodes[counted[i].Name]
		p.series(nodeDevices, offered(n.Status.Capacity), n.Name, "capacity")
		p.series(nodeDevices, offered(n.Status.Allocatable), n.Name, "allocatable")
	}
	p.family(nodePriced)
	for i := range counted {
		price, has := t.price.Has(string(t.nodes[counted[i].Name].UID))
		if has {
			p.series(nodePriced, map[bool]float64{true: 1}[price.Value.Source != cost.Unpriced], counted[i].Name, counted[i].Product)
		}
	}
	t.waiting(p, now)
	p.family(heldGPUs)
	for i := range counted {
		t.held(p, &counted[i])
	}
	p.family(gpuMemory)
	eachGPU(counted, func(n *devices.Node, g *devices.GPU, index string) {
		if g.MemoryBytes > 0 {
			p.series(gpuMemory, float64(g.MemoryBytes), n.Name, index, g.UUID)
		}
	})
}

// eachGPU calls f for those whose UUIDs are known.
func eachGPU(list []devices.Node, f func(n *devices.Node, g *devices.GPU, index string)) {
	for i := range list {
		for k := range list[i].GPUs {
			if g := &list[i].GPUs[k]; g.UUID != devices.UnknownUUID && g.Index >= 0 {
				f(&list[i], g, strconv.Itoa(g.Index))
			}
		}
	}
}

// labeled is how many GPUs the label of a node says that it has.
func labeled(n *v1.Node) int {
	count, err := strconv.Atoi(n.Labels[api.LabelCount])
	if err != nil || count < 0 {
		return 0
	}
	return count
}

// offered is how many devices with GPUs a list has, of any kind.
func offered(list v1.ResourceList) (sum float64) {
	for name, q := range list {
		if name == api.ResourceGPU || name == api.ResourceGPUShared || strings.HasPrefix(string(name), api.ResourceMIGPrefix) {
			sum += float64(q.Value())
		}
	}
	return sum
}

// byName sorts pods.
func byName(pods iter.Seq[*v1.Pod]) []*v1.Pod {
	return slices.SortedFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// piece is a GPU, and a pod that holds some of it.
type piece struct {
	index, uuid, product string // index and uuid are "" where they are not known
	pod                  *v1.Pod
}

// held are the series of what pods hold on a node: of a pod one for each GPU, and one for all those that are not known.
func (t *tally) held(p *page, n *devices.Node) {
	pods := map[string]*v1.Pod{}
	for _, pod := range t.pods[n.Name] {
		pods[pod.Namespace+"/"+pod.Name] = pod
	}
	sums := map[piece]int64{}
	add := func(list []devices.Holder, of piece) {
		for i := range list {
			if of.pod = pods[list[i].Namespace+"/"+list[i].Pod]; of.pod != nil {
				sums[of] += list[i].MilliGPU
			}
		}
	}
	for k := range n.GPUs {
		g := &n.GPUs[k]
		of := piece{product: g.Product}
		if g.UUID != devices.UnknownUUID && g.Index >= 0 {
			of.index, of.uuid = strconv.Itoa(g.Index), g.UUID
		}
		add(g.Holders, of)
		for i := range g.MIG {
			add(g.MIG[i].Holders, of)
		}
	}
	add(n.Unplaced, piece{product: n.Product})
	for _, of := range slices.SortedFunc(maps.Keys(sums), func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.product, b.product), cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name))
	}) {
		who := t.whose(of.pod)
		p.series(heldGPUs, float64(sums[of])/1000, n.Name, of.index, of.uuid, of.product, of.pod.Namespace, of.pod.Name, who.Kind, who.Owner, who.User, who.Queue)
	}
}

// whose is the holder that a pod is for, which is found once.
func (t *tally) whose(p *v1.Pod) cost.Pod {
	who, has := t.holders[p.UID]
	if !has {
		who = t.who(p)
		t.holders[p.UID] = who
	}
	return who
}

// waiting are the series of pods without a node.
func (t *tally) waiting(p *page, now time.Time) {
	list := byName(maps.Values(t.waits))
	slices.SortStableFunc(list, func(a, b *v1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	p.family(podWait)
	for _, pod := range list[:min(len(list), mostWaits)] {
		who, why := t.whose(pod), cmp.Or(t.trail.pods[pod.UID].WaitsFor, "Pending")
		if len(pod.Spec.SchedulingGates) > 0 {
			why = v1.PodReasonSchedulingGated
		}
		p.series(podWait, max(0, now.Sub(pod.CreationTimestamp.Time)).Seconds(), pod.Namespace, pod.Name, who.Kind, who.Owner, who.User, who.Queue, why)
	}
	if left := len(list) - mostWaits; left > 0 {
		p.family(rowsLeft)
		p.series(rowsLeft, float64(left))
	}
}

func standings(p *page, list []cost.BudgetStanding) {
	ratio := func(f family, of func(*cost.BudgetStanding) int64) {
		p.family(f)
		for i := range list {
			if list[i].BudgetMicros > 0 {
				p.series(f, float64(of(&list[i]))/float64(list[i].BudgetMicros), list[i].Queue)
			}
		}
	}
	ratio(budgetUsed, func(s *cost.BudgetStanding) int64 { return s.SpentMicros })
	ratio(budgetAhead, func(s *cost.BudgetStanding) int64 { return s.ForecastMicros })
}

// totals are what was charged since the ledger began, so they go on when the meter is started again.
func (m *Meter) totals(ctx context.Context, p *page, now time.Time) {
	rows, err := m.book.Totals(ctx, now)
	if err != nil {
		return // the ledger is asked again; GPULedgerGap says if it stays so
	}
	type key struct{ namespace, user, queue, product, what string }
	type sum struct{ seconds, usd float64 }
	sums := map[key]*sum{}
	for i := range rows {
		r := &rows[i]
		k := key{r.Namespace, r.User, r.Queue, r.Product, r.What.String()}
		if sums[k] == nil {
			sums[k] = &sum{}
		}
		sums[k].seconds += float64(r.PartMillis) / quota.Whole / 1000
		if r.Currency == "USD" {
			sums[k].usd += float64(r.Micros) / 1e6
		}
	}
	keys := slices.SortedFunc(maps.Keys(sums), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.user, b.user), cmp.Compare(a.queue, b.queue), cmp.Compare(a.product, b.product))
	})
	keys = keys[:min(len(keys), mostTotals)]
	p.family(gpuSeconds)
	for _, k := range keys {
		p.series(gpuSeconds, sums[k].seconds, k.namespace, k.user, k.queue, k.product, k.what)
	}
	p.family(costTotal)
	for _, k := range keys {
		p.series(costTotal, sums[k].usd, k.namespace, k.user, k.queue, k.product, k.what)
	}
}

// Exporters returns the nodes with an exporter of GPUs, and how to ask it; none before the cluster has been read.
func (m *Meter) Exporters(ctx context.Context) (nodes []string, text func(ctx context.Context, node string) ([]byte, error), err error) {
	m.mu.Lock()
	gauges := m.gauges
	m.mu.Unlock()
	if gauges == nil {
		return nil, nil, nil
	}
	nodes, err = gauges.Nodes(ctx)
	return nodes, gauges.Text, err
}

// Prometheuses lists those that run in the cluster; none before it has been read.
func (m *Meter) Prometheuses(ctx context.Context) ([]proxy.Prometheus, error) {
	m.mu.Lock()
	gauges := m.gauges
	m.mu.Unlock()
	if gauges == nil {
		return nil, nil
	}
	return gauges.Prometheuses(ctx)
}
