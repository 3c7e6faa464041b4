package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// Judge answers why pod, which has no node, waits: every check on every node, none
// left out because another failed first, and which of them binds.
func (t *Cluster) Judge(pod *v1.Pod) *reasons.Verdict {
	j := t.newJudgment(t.askOf(pod))
	return j.verdict(t)
}

// Rejections tells why pod would not fit on each node that has no room for it now.
func (t *Cluster) Rejections(pod *v1.Pod) []reasons.Rejection {
	return reasons.Rejections(t.Judge(pod).Nodes)
}

// ask is what a pod asks for, read once for all nodes.
type ask struct {
	pod      *v1.Pod
	gpus     map[string]int64
	names    []string // of gpus, sorted
	amounts  []reasons.Amount
	required nodeaffinity.RequiredNodeAffinity
	node     cluster.Request // CPU and memory
	by       map[string]string
	others   v1.ResourceList // what neither the Snapshot nor gpus count
	near     *neighbors
	ties     []VolumeTopology
	demands  map[int]cluster.Request // by the shares that a node makes of a GPU
	bars     bars
	queue    string // whose quotas leave some nodes out, as without says; "" is none
	without  func(*v1.Node) bool
}

// demand is what the pod asks of a node that divides its GPUs so.
func (a *ask) demand(s gpu.Sharing) cluster.Request {
	shares := s.Replicas[api.ResourceGPU] // all that request.Demand reads of it
	r, known := a.demands[shares]
	if !known {
		if a.demands == nil {
			a.demands = map[int]cluster.Request{}
		}
		r = request.Demand(a.pod, s)
		a.demands[shares] = r
	}
	return r
}

func (t *Cluster) askOf(pod *v1.Pod) *ask {
	gpus := request.Of(pod)
	a := &ask{
		pod: pod, gpus: gpus, amounts: AmountsOf(pod), names: slices.Sorted(maps.Keys(gpus)), required: nodeaffinity.GetRequiredNodeAffinity(pod),
		node: request.NodeResources(pod), by: initContainers(pod), others: otherResources(pod), near: t.neighborsOf(pod), ties: tiesOf(pod, t.ties), bars: t.barsOf(pod),
	}
	if t.queues != nil {
		a.queue, a.without = t.queues.Without(pod)
	}
	return a
}

// initContainers names, for each resource, the init container that alone asks for more
// than all that run after it.
func initContainers(pod *v1.Pod) map[string]string {
	if len(pod.Spec.InitContainers) == 0 {
		return nil
	}
	out, most := map[string]string{}, v1.ResourceList{}
	for i := range pod.Spec.Containers {
		for name, q := range asked(&pod.Spec.Containers[i]) {
			most[name] = added(most[name], q)
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		for name, q := range asked(c) {
			if !request.IsSidecar(c) && q.Cmp(most[name]) > 0 {
				most[name], out[string(name)] = q, c.Name
			}
		}
	}
	return out
}

// gaps are all checks that n does not pass, in their order.
func (t *Cluster) gaps(a *ask, n *v1.Node) []reasons.Gap {
	var out []reasons.Gap
	add := func(g reasons.Gap) { out = append(out, g) }
	view := t.viewOf(n.Name)
	name := unoffered(n, n.Status.Capacity, a.names)
	if g, claims := t.claimGap(n, name); claims {
		add(g)
	} else if name != "" && (view.Physical == 0 || len(gpuResources(n)) > 0 || !strings.HasPrefix(name, "nvidia.com/")) {
		add(reasons.Gap{Check: reasons.CheckOffered, Remedy: reasons.Never, Subject: name, Has: strings.Join(gpuResources(n), ", ")})
	}
	for _, name := range slices.Sorted(maps.Keys(a.others)) {
		if q := n.Status.Allocatable[name]; strings.Contains(string(name), "/") && q.IsZero() {
			add(reasons.Gap{Check: reasons.CheckOffered, Remedy: reasons.Never, Subject: string(name), Has: strings.Join(gpuResources(n), ", ")})
		}
	}
	for _, g := range unselected(a, n) {
		add(g)
	}
	out = append(out, a.bars.gaps(n)...)
	for i := range n.Spec.Taints {
		taint := &n.Spec.Taints[i]
		if keepsOff(taint, a.pod) && !comesAndGoes(taint) {
			add(reasons.Gap{
				Check: reasons.CheckTaint, Remedy: reasons.Never, Subject: taint.ToString(), Do: "add the toleration " + TolerationOf(taint),
			})
		}
	}
	for _, tie := range a.ties {
		if !tie.Reaches(n) {
			add(reasons.Gap{
				Check: reasons.CheckVolume, Remedy: reasons.Never, Subject: tie.Claim, Has: tie.Volume + " is on nodes with " + tie.Where,
				Do: "use another claim, or copy its data to a volume created there",
			})
		}
	}
	out = append(out, closed(view)...)
	out = append(out, unwell(a.pod, n)...)
	out = append(out, t.gpuGaps(a, n, view)...)
	out = append(out, t.amountGaps(a, n)...)
	out = append(out, a.near.gaps(n)...)
	if a.queue != "" && a.without(n) {
		add(reasons.Gap{Check: reasons.CheckQuota, Remedy: reasons.Waits, Subject: a.queue})
	}
	return out
}

// viewOf is what is known of the GPUs of a node.
func (t *Cluster) viewOf(name string) *devices.Node {
	i, found := slices.BinarySearchFunc(t.view.Nodes, name, func(v devices.Node, name string) int { return cmp.Compare(v.Name, name) })
	if !found {
		return &devices.Node{}
	}
	return &t.view.Nodes[i]
}

// unselected are the labels and terms of pod that n does not meet.
func unselected(a *ask, n *v1.Node) []reasons.Gap {
	if ok, err := a.required.Match(n); ok && err == nil {
		return nil
	}
	var out []reasons.Gap
	for _, key := range slices.Sorted(maps.Keys(a.pod.Spec.NodeSelector)) {
		want := a.pod.Spec.NodeSelector[key]
		has, ok := n.Labels[key]
		if has == want && ok {
			continue
		}
		g := reasons.Gap{Check: reasons.CheckSelector, Remedy: reasons.Never, Subject: key + "=" + want, Has: has, Do: "change nodeSelector, if this will do"}
		if !ok {
			g.Do = "change nodeSelector, or label the node"
		}
		out = append(out, g)
	}
	terms := requiredTerms(a.pod)
	if len(terms) == 0 {
		return out
	}
	s, err := nodeaffinity.NewNodeSelector(&v1.NodeSelector{NodeSelectorTerms: terms})
	if err == nil && s.Match(n) {
		return out
	}
	return append(out, reasons.Gap{
		Check: reasons.CheckAffinity, Remedy: reasons.Never, Subject: termsText(terms), Has: labelsOf(n, terms), Do: "change the affinity, if this will do",
	})
}

func requiredTerms(pod *v1.Pod) []v1.NodeSelectorTerm {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// labelsOf tells what a node has of the keys of terms: "a=1, no b".
func labelsOf(n *v1.Node, terms []v1.NodeSelectorTerm) string {
	var out []string
	for i := range terms {
		for _, e := range terms[i].MatchExpressions {
			text := "no label " + e.Key
			if has, ok := n.Labels[e.Key]; ok {
				text = e.Key + "=" + has
			}
			if !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	if len(out) == 0 {
		return "the name " + n.Name
	}
	return strings.Join(out, ", ")
}

// closed says why a node takes no pods for its GPUs.
func closed(view *devices.Node) []reasons.Gap {
	do := map[string]string{
		"cordoned":           "kubectl uncordon NODE, if its work is done",
		"not ready":          "kubectl describe node NODE tells what its kubelet lacks",
		"device plugin down": "see why the device plugin does not run there: kubectl get pods -A -o wide | grep device-plugin",
	}
	if view.Remark == "" {
		return nil
	}
	first, _, _ := strings.Cut(view.Remark, ", ")
	return []reasons.Gap{{Check: reasons.CheckClosed, Remedy: reasons.Mends, Subject: view.Remark, Do: do[first]}}
}

// amountGaps are what n lacks of CPU, memory, and what else is counted.
func (t *Cluster) amountGaps(a *ask, n *v1.Node) []reasons.Gap {
	var out []reasons.Gap
	i, ok := t.snapshot.Find(n.Name)
	if ok {
		at := t.snapshot.Node(i)
		amount := func(check reasons.Check, resource string, needed, free, total int64) {
			if needed <= free {
				return
			}
			g := reasons.Gap{Check: check, Needed: needed, Free: max(0, free), Total: total, By: a.by[resource], Do: "ask for less of it, or wait"}
			if needed > total {
				g.Remedy, g.Do = reasons.Never, "ask for less of it"
			}
			out = append(out, g)
		}
		amount(reasons.CheckCPU, "cpu", a.node.CPUMilli, at.FreeCPUMilli, at.CPUMilli)
		amount(reasons.CheckMemory, "memory", a.node.MemoryBytes, at.FreeMemoryBytes, at.MemoryBytes)
		if at.FreePods <= 0 {
			out = append(out, reasons.Gap{Check: reasons.CheckPods, Needed: 1, Total: int64(at.Pods)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.others)) {
		needed, total := a.others[name], n.Status.Allocatable[name]
		free := total.DeepCopy()
		for _, p := range t.on[n.Name] {
			free.Sub(otherResources(p)[name])
		}
		if needed.Cmp(free) <= 0 || strings.Contains(string(name), "/") && total.IsZero() {
			continue
		}
		g := reasons.Gap{Check: reasons.CheckResource, Subject: string(name), Needed: needed.Value(), Free: max(0, free.Value()), Total: total.Value(), By: a.by[string(name)]}
		if needed.Cmp(total) > 0 {
			g.Remedy = reasons.Never
		}
		out = append(out, g)
	}
	return out
}

// otherResources is what a pod asks for beside CPU, memory, and GPUs.
func otherResources(pod *v1.Pod) v1.ResourceList {
	var out v1.ResourceList
	for prefixed, q := range charged(pod) {
		name, found := strings.CutPrefix(prefixed, "requests.")
		if !found || name == "cpu" || name == "memory" || request.IsGPU(name) || q.IsZero() {
			continue
		}
		if out == nil {
			out = v1.ResourceList{}
		}
		out[v1.ResourceName(name)] = q
	}
	return out
}

// offer is what a node offers of the first GPU resource that is asked for, if waiting for
// it helps, and what of it is free.
func (t *Cluster) offer(a *ask, n *v1.Node, gaps []reasons.Gap) (out offer) {
	if len(a.amounts) == 0 {
		return offer{}
	}
	for i := range gaps {
		if gaps[i].Check < reasons.CheckClosed {
			return offer{}
		}
	}
	q := n.Status.Allocatable[v1.ResourceName(a.amounts[0].Resource)]
	out.total = request.Amount(&q, request.MostAsked)
	if slices.ContainsFunc(gaps, func(g reasons.Gap) bool { return g.Check != reasons.CheckGPUs || g.Remedy == reasons.Mends }) {
		return out
	}
	out.free = t.free(a, n)
	return out
}

// hints adds what nodes have of what the binding cause wants.
func (t *Cluster) hints(v *reasons.Verdict, a *ask) {
	c := v.Binding()
	if c == nil {
		return
	}
	switch g := &c.Gap; g.Check { //nolint:exhaustive // the rest has none
	case reasons.CheckSelector:
		v.Offers, v.Near = valuesOf(t.all, g.Subject), nearestLabel(t.all, g.Subject)
	case reasons.CheckAffinity:
		v.Offers = valuesOfTerms(t.offering(a), requiredTerms(a.pod))
		for _, w := range wantedLabels(a.pod) {
			if v.Near == "" && len(w.values) == 1 && !slices.Contains(v.Offers, w.key+"="+w.values[0]) {
				v.Near = nearestLabel(t.all, w.key+"="+w.values[0])
			}
		}
	case reasons.CheckOffered:
		v.Offers = t.resources()
		v.Near = nearestName(g.Subject, v.Offers)
	}
}

// offering are the nodes that have what is asked for.
func (t *Cluster) offering(a *ask) []*v1.Node {
	return slices.DeleteFunc(slices.Clone(t.all), func(n *v1.Node) bool { return unoffered(n, n.Status.Capacity, a.names) != "" })
}

// valuesOfTerms are the labels KEY=VALUE that nodes have of the keys of terms, sorted.
func valuesOfTerms(nodes []*v1.Node, terms []v1.NodeSelectorTerm) []string {
	var out []string
	for i := range terms {
		for _, e := range terms[i].MatchExpressions {
			for _, n := range nodes {
				if has, ok := n.Labels[e.Key]; ok {
					out = append(out, e.Key+"="+has)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
