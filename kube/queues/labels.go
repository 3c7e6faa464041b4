package queues

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/devices"
)

// Labels returns the node labels that Queues name in their quotas, limits and orders of preference,
// as "workload=training", sorted.
func Labels(list []*v1alpha1.Queue) []string {
	named := map[string]bool{}
	add := func(gpus string) {
		if label := quota.Resource(gpus).Label(); label != "" {
			named[label] = true
		}
	}
	for _, q := range list {
		for i := range q.Spec.Quotas {
			add(q.Spec.Quotas[i].GPUs)
		}
		for _, limits := range [][]v1alpha1.QueueLimit{q.Spec.PerUser, q.Spec.PerPod} {
			for i := range limits {
				add(limits[i].GPUs)
			}
		}
		for _, gpus := range q.Spec.PreferredGPUs {
			add(gpus)
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// Count has GPUs told apart as Queues do: by the labels of nodes that they name, and at all only if
// they name some, or products.
func (o *Offers) Count(list []*v1alpha1.Queue) {
	o.plain = !slices.ContainsFunc(list, tellsApart)
	labels := Labels(list)
	if slices.Equal(o.labels, labels) {
		return
	}
	nodes := o.nodes
	o.labels, o.nodes, o.ways = labels, nil, nil
	for _, n := range nodes {
		o.read(n)
		o.enter(n)
	}
}

// tellsApart reports whether it matters for a Queue which GPUs a pod gets.
func tellsApart(q *v1alpha1.Queue) bool {
	by := func(gpus string) bool {
		return gpus != v1alpha1.GPUsAll && !strings.HasPrefix(gpus, v1alpha1.GPUsMIGPrefix)
	}
	limits := func(l v1alpha1.QueueLimit) bool { return by(l.GPUs) }
	return len(q.Spec.PreferredGPUs) > 0 || slices.ContainsFunc(q.Spec.Quotas, func(c v1alpha1.QueueQuota) bool { return by(c.GPUs) }) ||
		slices.ContainsFunc(q.Spec.PerUser, limits) || slices.ContainsFunc(q.Spec.PerPod, limits)
}

// Labels returns the labels that Count has read. They must not be changed.
func (o *Offers) Labels() []string { return o.labels }

// KindOf returns what kind of GPUs a node has.
func (o *Offers) KindOf(node *v1.Node) quota.Kind {
	if n := o.nodes[node.Name]; n != nil && devices.SameOffer(n.node, node) {
		return n.kind
	}
	return quota.Kind{Product: devices.OfferOf(node).Product(), Labels: o.labelsOf(node)}
}

// keys are the keys of the labels that tell nodes apart.
func (o *Offers) keys() []string {
	keys := []string{api.LabelProduct}
	for _, label := range o.labels {
		if key, _, _ := strings.Cut(label, "="); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// labelsOf are those of a node's labels that quotas name, as in quota.Kind.
func (o *Offers) labelsOf(node *v1.Node) string {
	return joined(o.labels, func(key string) (string, bool) {
		value, there := node.Labels[key]
		return value, there
	})
}

// joined are those of labels, as "a=b", whose key has their value.
func joined(labels []string, of func(key string) (string, bool)) string {
	var out []string
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		if has, there := of(key); there && has == value {
			out = append(out, label)
		}
	}
	return strings.Join(out, ",")
}

// valuesOf is equal for nodes that have the same values of the labels by which pods are counted.
func (o *Offers) valuesOf(node *v1.Node) string {
	if len(o.labels) == 0 {
		return ""
	}
	var b strings.Builder
	for _, key := range o.keys()[1:] {
		if value, there := node.Labels[key]; there {
			b.WriteString(" " + key + "=" + value)
		}
	}
	return b.String()
}

// lifecycle begins the taints that nodes get and lose by what happens to them.
const lifecycle = "node.kubernetes.io/"

// keepsOff lists the taints that keep pods off a node for as long as it is of its pool.
func keepsOff(node *v1.Node) []*v1.Taint {
	var out []*v1.Taint
	for i := range node.Spec.Taints {
		if t := &node.Spec.Taints[i]; t.Effect != v1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, lifecycle) {
			out = append(out, t)
		}
	}
	return out
}

// taintsOf is equal for nodes that keep the same pods off.
func taintsOf(node *v1.Node) string {
	var out []string
	for _, t := range keepsOff(node) {
		out = append(out, " !"+t.ToString())
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// sameTaints reports whether two versions of a node keep the same pods off.
func sameTaints(a, b *v1.Node) bool {
	return len(a.Spec.Taints) == 0 && len(b.Spec.Taints) == 0 || taintsOf(a) == taintsOf(b)
}

// tolerates reports whether a pod may use a node with its taints.
func tolerates(pod *v1.Pod, node *v1.Node) bool {
	return !slices.ContainsFunc(keepsOff(node), func(t *v1.Taint) bool {
		return !slices.ContainsFunc(pod.Spec.Tolerations, func(o v1.Toleration) bool { return o.ToleratesTaint(klog.Background(), t, false) })
	})
}
