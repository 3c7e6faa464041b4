package nodeindex

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/state"
)

// mostClasses bounds the classes that are kept: 40 KB each at 5,000 nodes. The
// one asked for longest ago goes first.
const mostClasses = 128

// bonuses, in milli-GPUs. What a user prefers outweighs what packing can gain: on a node of eight idle GPUs 24,000, where pods leave, and
// 8,000 more where they declare when they end. That is less than the difference between preferred terms of weights 80 and 50 of 230.
const (
	bonusAffinity = 300_000 // for all preferred terms together
	bonusTaint    = -150_000
)

// Class is the pods that say the same about the nodes they want: node selector,
// node affinity, tolerations, which resources a node must offer, and which data
// and images it had better have.
type Class struct {
	number    uint32
	pod       *v1.Pod // one of them
	required  nodeaffinity.RequiredNodeAffinity
	preferred *nodeaffinity.PreferredSchedulingTerms
	weight    int64         // of all preferred terms
	resources []string      // GPU resources that a node must offer
	bySize    bool          // asks for a share by size, whatever the resource is called
	barred    sharing.Ways  // in which the pods must not use GPUs
	asks      []sharing.Ask // of one of the pods, if some way is barred
	datasets  []string      // that the pods read
	images    []string      // of the pods, those that not all nodes have
	Others    int           // nodes with whyOther
	limit     *limit        // by quotas; nil is none
	asked     int64
	key       string
}

// limit is the nodes whose kind of GPUs the quotas of pods leave.
type limit struct {
	key   string
	kinds []quota.Kind
	of    func(*v1.Node) quota.Kind
}

// classes are those in use, by what they say, with what each node is worth to them in
// the Snapshot.
type classes struct {
	ByKey    map[string]*Class
	nodes    []*node
	snapshot *cluster.Snapshot
	last     uint32 // number given last; none is given twice
	asked    int64
}

func newClasses(nodes []*node, s *cluster.Snapshot) classes {
	return classes{ByKey: map[string]*Class{}, nodes: nodes, snapshot: s}
}

// newClass reads what pod says about nodes.
func newClass(key string, pod *v1.Pod, w *state.Request) (*Class, error) {
	c := &Class{key: key, pod: pod, datasets: datasets(pod.Annotations[api.AnnotationDataset]), required: nodeaffinity.GetRequiredNodeAffinity(pod), resources: w.Resources(), bySize: w.BySize()}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		terms := a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		var err error
		if c.preferred, err = nodeaffinity.NewPreferredSchedulingTerms(terms); err != nil {
			return nil, err
		}
		for i := range terms {
			c.weight += int64(max(0, terms[i].Weight))
		}
	}
	return c, nil
}

// judge says whether pods of the class may use a node, in the order in which
// kube-scheduler's plugins ask, and what it is worth to them.
func (c *Class) judge(at *node) cluster.Verdict {
	n, tolerations := at.Object, c.pod.Spec.Tolerations
	log := klog.Background()
	if n.Spec.Unschedulable && !corev1helpers.TolerationsTolerateTaint(log, tolerations, &v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}, false) {
		return cluster.Verdict{Reason: state.WhyUnschedulable}
	}
	avoided := int32(0)
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if corev1helpers.TolerationsTolerateTaint(log, tolerations, t, false) {
			continue
		}
		if t.Effect != v1.TaintEffectPreferNoSchedule {
			return cluster.Verdict{Reason: state.WhyTaint}
		}
		avoided++
	}
	if ok, err := c.required.Match(n); !ok || err != nil {
		return cluster.Verdict{Reason: state.WhyAffinity}
	}
	if c.limit != nil && !slices.Contains(c.limit.kinds, c.limit.of(n)) {
		return cluster.Verdict{Reason: state.WhyQuota}
	}
	if Missing(n, c.resources) != "" {
		return cluster.Verdict{Reason: state.WhyNotOffered}
	}
	if c.asks != nil && state.Bars(at.offer(), c.asks, c.barred) {
		return cluster.Verdict{Reason: state.WhySharing}
	}
	if at.Odd {
		return cluster.Verdict{Reason: state.WhyOther}
	}
	if c.bySize && (at.Foreign || at.Spec.Shares > 1) {
		return cluster.Verdict{Reason: state.WhyNotOffered}
	}
	v := cluster.Verdict{Bonus: bonusTaint * min(avoided, 3)}
	if c.preferred != nil && c.weight > 0 {
		v.Bonus += int32(bonusAffinity * c.preferred.Score(n) / c.weight)
	}
	v.Bonus += bonusDatasets * hasDatasets(n, c.datasets) / 1000
	v.Bonus += bonusImages * hasImages(n, c.images) / 1000
	return v
}

// Missing names the first resource that a node does not offer now, as when its
// device plugin is down, or "".
func Missing(n *v1.Node, resources []string) string {
	for _, name := range resources {
		if q := n.Status.Allocatable[v1.ResourceName(name)]; q.Sign() <= 0 {
			return name
		}
	}
	return ""
}

// of returns the class of a pod, which must not use GPUs in barred ways, and whose images are those
// that not all nodes have. It judges every node if the class is new. only may be nil.
func (k *classes) of(pod *v1.Pod, want *state.Request, barred sharing.Ways, images []string, only *limit) (*Class, error) {
	k.asked++
	key := want.Class
	if barred != 0 {
		key += string([]byte{5, byte(barred)})
	}
	if len(images) > 0 {
		key += "\x04" + strings.Join(images, "\x04")
	}
	if only != nil {
		key += "\x07" + only.key
	}
	c := k.ByKey[key]
	if c == nil {
		var err error
		if c, err = newClass(key, pod, want); err != nil {
			return nil, err
		}
		c.images, c.barred, c.limit = images, barred, only
		if barred != 0 {
			c.asks = request.Asks(pod)
		}
		if len(k.ByKey) >= mostClasses {
			k.drop()
		}
		k.last++
		c.number = k.last
		verdicts := make([]cluster.Verdict, len(k.nodes))
		for i, at := range k.nodes {
			if verdicts[i] = c.judge(at); verdicts[i].Reason == state.WhyOther {
				c.Others++
			}
		}
		k.snapshot.SetClass(c.number, verdicts)
		k.ByKey[key] = c
	}
	c.asked = k.asked
	return c, nil
}

// drop forgets the class that was asked for longest ago.
func (k *classes) drop() {
	var oldest *Class
	for _, c := range k.ByKey {
		if oldest == nil || c.asked < oldest.asked {
			oldest = c
		}
	}
	delete(k.ByKey, oldest.key)
	k.snapshot.DropClass(oldest.number)
}

// rejudge judges a node that has changed for every class.
func (k *classes) rejudge(at *node) {
	for _, c := range k.ByKey {
		was, now := k.snapshot.Verdict(c.number, at.Index), c.judge(at)
		if was.Reason == state.WhyOther {
			c.Others--
		}
		if now.Reason == state.WhyOther {
			c.Others++
		}
		k.snapshot.SetVerdict(c.number, at.Index, now)
	}
}
