package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/pool"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/view"
)

// Cluster is a cluster at one moment, on which notebooks are tried.
type Cluster struct {
	nodes []*corev1.Node // by name
	view  view.View
	live  *explain.Cluster
	pools []pool.Growth
}

// NewCluster reads nodes and the pods on them. Nothing is changed in them.
func NewCluster(nodes []*corev1.Node, pods []*corev1.Pod) (*Cluster, error) {
	live, err := explain.NewCluster(nodes, pods)
	if err != nil {
		return nil, err
	}
	c := &Cluster{nodes: slices.Clone(nodes), view: view.Cluster(nodes, pods), live: live}
	slices.SortFunc(c.nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return c, nil
}

// Growing tells the Cluster of pools that can grow. A notebook that would start on a
// new node of one is never one that could not start at all.
func (c *Cluster) Growing(pools []pool.Growth) { c.pools = pools }

// Priced fills in what nodes cost at a time, by the rules of PriceBooks. Before, no price is known.
func (c *Cluster) Priced(rules cost.Rules, now time.Time) { c.view.SetPrices(c.nodes, rules, now) }

// Standing is what a notebook asks for, what of a cluster it could use, and
// whether it would start at once.
type Standing struct {
	Resource string // of the GPUs that it asks for, such as "nvidia.com/gpu"; "" is none
	GPUs     int64  // how many of Resource
	// CPU and Memory are what it is guaranteed, and the limits; zero is none.
	CPU, Memory, CPULimit, MemoryLimit resource.Quantity

	Nodes int // that it may use: it selects and tolerates them, and they have such GPUs
	// Products are those of the GPUs of these nodes, in label form, sorted; only of
	// nodes that are large enough, if any is. FreeGPUs and the prices are of the same.
	Products []string
	FreeGPUs int64 // milli-GPUs that are free now
	// LeastPriceMicros and MostPriceMicros are per hour, in 1e-6 of Currency, for its
	// GPUs or shares on those nodes of known price; both 0 is unknown, as for MIG
	// devices, or if nodes are priced in several currencies. The price of a node is shared by its devices.
	LeastPriceMicros, MostPriceMicros int64
	Currency                          string

	Starts string // the node on which it would start at once; "" is none
	Why    string // why it would not
	Never  bool   // it could not start even if nothing else ran, or a pool grew
	Pool   string // on a new node of which it would start, where it does not now; "" is none
}

// Standing tells how a notebook stands on the cluster.
func (c *Cluster) Standing(nb *kubeflow.Notebook) (Standing, error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(nb.Spec.Template.Spec.Raw, &pod.Spec); err != nil {
		return Standing{}, fmt.Errorf("read the pod of notebook %s: %w", nb.Name, err)
	}
	return c.standing(pod), nil
}

func (c *Cluster) standing(pod *corev1.Pod) Standing {
	var s Standing
	asked := request.Of(pod)
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if s.Resource == "" || name == api.ResourceGPU {
			s.Resource, s.GPUs = name, asked[name]
		}
	}
	for i := range pod.Spec.Containers {
		r := &pod.Spec.Containers[i].Resources
		s.CPU.Add(r.Requests[corev1.ResourceCPU])
		s.Memory.Add(r.Requests[corev1.ResourceMemory])
		s.CPULimit.Add(r.Limits[corev1.ResourceCPU])
		s.MemoryLimit.Add(r.Limits[corev1.ResourceMemory])
	}
	allowed, keptOff := c.allowed(pod)
	products, currencies := map[string]bool{}, map[string]bool{}
	s.Nodes = len(allowed)
	useful := slices.DeleteFunc(slices.Clone(allowed), func(n *corev1.Node) bool { return !holds(n, pod) })
	large := len(useful) > 0
	if large {
		allowed = useful
	}
	for _, n := range allowed {
		if v := c.viewOf(n.Name); v != nil && len(v.GPUs) > 0 {
			products[v.Product] = true
			s.FreeGPUs += v.Free
			for _, p := range v.Prices {
				if s.price(v, p) {
					currencies[p.Currency] = true
				}
			}
		}
	}
	s.Products = slices.Sorted(maps.Keys(products))
	if len(currencies) > 1 {
		s.LeastPriceMicros, s.MostPriceMicros, s.Currency = 0, 0, ""
	}
	node, fits := c.live.Fits(pod)
	switch {
	case fits:
		s.Starts = node
	case s.Nodes == 0:
		s.Why, s.Never = c.whyNone(pod, s.Resource, keptOff), true
	case !large:
		s.Why, s.Never = tooLarge(allowed, pod), true
	case s.Resource != "":
		s.Why = fmt.Sprintf("%s of %s free on %s", gpusText(s.FreeGPUs), plural(c.physical(allowed), "GPU"), plural(len(allowed), "node"))
	default:
		s.Why = fmt.Sprintf("%s too full for its CPU or memory", plural(len(allowed), "node"))
	}
	if g := pool.Start(c.pools, pod, nil); !fits && g != nil {
		s.Pool, s.Never = g.Name, false
		s.Why += fmt.Sprintf("; pool %s %s, and it would start on a new node of it", g.Name, g)
	}
	return s
}

// price widens the range of prices by what the GPUs asked for cost on a node with a price, and reports whether they can be priced there.
func (s *Standing) price(v *devices.Node, of cost.Amount) bool {
	shared := v.Sharing == "shares"
	if v.Devices == 0 || s.Resource != api.ResourceGPU && s.Resource != api.ResourceGPUShared || v.Sharing != "" && !shared {
		return false
	}
	p := of.Micros * s.GPUs / int64(v.Devices)
	if s.MostPriceMicros == 0 || p < s.LeastPriceMicros {
		s.LeastPriceMicros = p
	}
	s.MostPriceMicros, s.Currency = max(s.MostPriceMicros, p), of.Currency
	return true
}

// allowed gives the nodes that a pod selects and tolerates and that have GPUs of
// the kind it asks for, and a taint that keeps it off a node it selects, or "".
// What comes and goes, such as a cordon, does not count.
func (c *Cluster) allowed(pod *corev1.Pod) (list []*corev1.Node, keptOff string) {
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, n := range c.nodes {
		if ok, err := required.Match(n); !ok || err != nil || !offers(n, pod) {
			continue
		}
		taint, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, "node.kubernetes.io/")
		}, false)
		if found {
			keptOff = taint.ToString()
			continue
		}
		list = append(list, n)
	}
	return list, keptOff
}

// offers reports whether a node has anything of each GPU resource that a pod asks
// for. A share by size is offered by every node with GPUs.
func offers(n *corev1.Node, pod *corev1.Pod) bool {
	for name := range request.Of(pod) {
		q := n.Status.Capacity[corev1.ResourceName(name)]
		whole := name == api.ResourceGPU || name == api.ResourceGPUShared || strings.HasPrefix(name, api.ResourceMIGPrefix)
		if q.Value() == 0 && (whole || !devices.GPUNode(n)) {
			return false
		}
	}
	return true
}

// holds reports whether a node with nothing on it would be large enough.
func holds(n *corev1.Node, pod *corev1.Pod) bool {
	for name, ask := range requests(pod) {
		if q, ok := n.Status.Allocatable[name]; ok && q.Cmp(ask) < 0 {
			return false
		}
	}
	return true
}

// requests adds up what the containers of a pod ask for.
func requests(pod *corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		r := &pod.Spec.Containers[i].Resources
		all := maps.Clone(r.Requests)
		if all == nil {
			all = corev1.ResourceList{}
		}
		for name, limit := range r.Limits {
			if _, there := all[name]; !there {
				all[name] = limit // the API server requests what is only limited
			}
		}
		for name, q := range all {
			total := sum[name]
			total.Add(q)
			sum[name] = total
		}
	}
	return sum
}

// tooLarge says what no node has enough of.
func tooLarge(nodes []*corev1.Node, pod *corev1.Pod) string {
	asks := requests(pod)
	for _, name := range slices.Sorted(maps.Keys(asks)) {
		var most resource.Quantity
		var on string
		listed := false
		for _, n := range nodes {
			if q, ok := n.Status.Allocatable[name]; ok {
				listed = true
				if on == "" || q.Cmp(most) > 0 {
					most, on = q, n.Name
				}
			}
		}
		ask := asks[name]
		if listed && most.Cmp(ask) < 0 {
			return fmt.Sprintf("it asks for %s of %s, and of the %s that it could use the largest, %s, has %s",
				amountText(name, ask), name, plural(len(nodes), "node"), on, amountText(name, most))
		}
	}
	return fmt.Sprintf("none of the %s that it could use is large enough for all that it asks for", plural(len(nodes), "node"))
}

// whyNone says why no node could ever do.
func (c *Cluster) whyNone(pod *corev1.Pod, gpus, keptOff string) string {
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		value := pod.Spec.NodeSelector[key]
		if !slices.ContainsFunc(c.nodes, func(n *corev1.Node) bool { has, ok := n.Labels[key]; return ok && has == value }) {
			return fmt.Sprintf("no node has the label %s=%s", key, value)
		}
	}
	switch {
	case keptOff != "":
		return "the nodes that it selects have the taint " + keptOff + ", which it does not tolerate"
	case gpus != "":
		return "no node that it selects has " + gpus
	}
	return "no node is as it selects"
}

func (c *Cluster) viewOf(name string) *devices.Node {
	i, found := slices.BinarySearchFunc(c.view.Nodes, name, func(n devices.Node, name string) int { return cmp.Compare(n.Name, name) })
	if !found {
		return nil
	}
	return &c.view.Nodes[i]
}

// physical counts the GPUs of nodes.
func (c *Cluster) physical(nodes []*corev1.Node) int {
	sum := 0
	for _, n := range nodes {
		if v := c.viewOf(n.Name); v != nil {
			sum += v.Physical
		}
	}
	return sum
}

// gpusText writes milli-GPUs as GPUs, down to hundredths.
func gpusText(milli int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%d.%02d", milli/1000, milli%1000/10), ".00")
}

// amountText writes an amount as people do: memory in Gi.
func amountText(name corev1.ResourceName, q resource.Quantity) string {
	if name != corev1.ResourceMemory {
		return q.String()
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(q.Value())/(1<<30)), ".0") + "Gi"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// CheckCluster adds to the findings, after Check, which profiles and choices a
// cluster has no node for. A pool of nodes that is empty now cannot be told from
// one that is not there, unless it is declared: see Growing.
func (f *File) CheckCluster(c *Cluster) {
	for i := range f.Profiles {
		l := &f.Profiles[i]
		said := "" // of the default choices
		for _, t := range l.variants {
			s := c.standing(&corev1.Pod{Spec: t.maker.pod})
			if !s.Never || s.Why == said {
				continue
			}
			if t.what == "" {
				said = s.Why
			}
			text, code, setting := s.Why, CodeNoNode, "node_selector"
			if s.Nodes > 0 {
				code, setting = CodeTooLarge, "mem_guarantee"
				if strings.Contains(text, string(corev1.ResourceCPU)) {
					setting = "cpu_guarantee"
				}
			}
			if t.what != "" {
				text = "with " + t.what + ": " + text
			}
			f.add(l, t.maker.set.From[setting], code, Doubt, text)
		}
	}
	f.Findings = sorted(f.Findings)
}
