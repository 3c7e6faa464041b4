package devices

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
)

// mostClasses bounds the classes that are kept: 40 KB each at 5,000 nodes. The
// one asked for longest ago goes first.
const mostClasses = 128

// The reasons of a class's verdict on a node: why a pod may not use it.
const (
	mayUse uint8 = iota
	whyUnschedulable
	whyTaint
	whyAffinity
	whyNotOffered
	whyOther // what the node offers cannot be told to package placement
)

// bonuses, in milli-GPUs. What a user prefers outweighs what packing can gain.
const (
	bonusAffinity = 20000 // for all preferred terms together
	bonusTaint    = -10000
)

// class is the pods that say the same about the nodes they want: node selector,
// node affinity, tolerations, which resources a node must offer, and which data
// and images it had better have.
type class struct {
	number    uint32
	pod       *v1.Pod // one of them
	required  nodeaffinity.RequiredNodeAffinity
	preferred *nodeaffinity.PreferredSchedulingTerms
	weight    int64    // of all preferred terms
	resources []string // GPU resources that a node must offer
	bySize    bool     // asks for a share by size, whatever the resource is called
	datasets  []string // that the pods read
	images    []string // of the pods, those that not all nodes have
	others    int      // nodes with whyOther
	asked     int64
	key       string
}

// classes are those in use, by what they say.
type classes struct {
	byKey map[string]*class
	last  uint32 // number given last; none is given twice
	asked int64
}

func newClasses() classes { return classes{byKey: map[string]*class{}} }

// classKey is equal for pods of one class.
func classKey(pod *v1.Pod, w *wanted) string {
	b := make([]byte, 0, 256)
	add := func(s string) { b = append(append(b, s...), 0) }
	keys := make([]string, 0, len(pod.Spec.NodeSelector))
	for k := range pod.Spec.NodeSelector {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		add(k)
		add(pod.Spec.NodeSelector[k])
	}
	b = append(b, 1)
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		if raw, err := a.NodeAffinity.Marshal(); err == nil {
			b = append(b, raw...)
		}
	}
	b = append(b, 1)
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		add(t.Key)
		add(string(t.Operator))
		add(t.Value)
		add(string(t.Effect))
	}
	b = append(b, 1)
	for _, name := range w.resources() {
		add(name)
	}
	if w.bySize() {
		b = append(b, 2)
	}
	if list := pod.Annotations[api.AnnotationDataset]; list != "" {
		b = append(b, 1)
		add(list)
	}
	return string(b)
}

// resources lists the GPU resources that a node must offer for w, sorted. Names
// that only people write (annotations, the spellings of other programs) are not
// offered by any node.
func (w *wanted) resources() []string {
	var out []string
	for i := range w.parts {
		for _, a := range w.parts[i].Asks {
			if _, _, share := a.ShareOf(); (!share || a.Resource == api.ResourceGPUMemory) && !slices.Contains(out, a.Resource) {
				out = append(out, a.Resource)
			}
		}
	}
	slices.Sort(out)
	return out
}

// bySize says whether w asks for a share of a GPU by its size.
func (w *wanted) bySize() bool {
	for i := range w.parts {
		for _, a := range w.parts[i].Asks {
			if _, _, share := a.ShareOf(); share {
				return true
			}
		}
	}
	return false
}

// newClass reads what pod says about nodes.
func newClass(key string, pod *v1.Pod, w *wanted) (*class, error) {
	c := &class{key: key, pod: pod, datasets: datasets(pod.Annotations[api.AnnotationDataset]), required: nodeaffinity.GetRequiredNodeAffinity(pod), resources: w.resources(), bySize: w.bySize()}
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
func (c *class) judge(at *site) cluster.Verdict {
	n, tolerations := at.object, c.pod.Spec.Tolerations
	log := klog.Background()
	if n.Spec.Unschedulable && !corev1helpers.TolerationsTolerateTaint(log, tolerations, &v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}, false) {
		return cluster.Verdict{Reason: whyUnschedulable}
	}
	avoided := int32(0)
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if corev1helpers.TolerationsTolerateTaint(log, tolerations, t, false) {
			continue
		}
		if t.Effect != v1.TaintEffectPreferNoSchedule {
			return cluster.Verdict{Reason: whyTaint}
		}
		avoided++
	}
	if ok, err := c.required.Match(n); !ok || err != nil {
		return cluster.Verdict{Reason: whyAffinity}
	}
	if missing(n, c.resources) != "" {
		return cluster.Verdict{Reason: whyNotOffered}
	}
	if at.odd {
		return cluster.Verdict{Reason: whyOther}
	}
	if c.bySize && (at.foreign || at.spec.Shares > 1) {
		return cluster.Verdict{Reason: whyNotOffered}
	}
	v := cluster.Verdict{Bonus: bonusTaint * min(avoided, 3)}
	if c.preferred != nil && c.weight > 0 {
		v.Bonus += int32(bonusAffinity * c.preferred.Score(n) / c.weight)
	}
	v.Bonus += bonusDatasets * hasDatasets(n, c.datasets) / 1000
	v.Bonus += bonusImages * hasImages(n, c.images) / 1000
	return v
}

// missing names the first resource that a node does not offer now, as when its
// device plugin is down, or "".
func missing(n *v1.Node, resources []string) string {
	for _, name := range resources {
		if q := n.Status.Allocatable[v1.ResourceName(name)]; q.Sign() <= 0 {
			return name
		}
	}
	return ""
}

// class gives the class of a pod, judging every node if it is new.
func (w *world) class(pod *v1.Pod, want *wanted) (*class, error) {
	k := &w.classes
	k.asked++
	key, images := want.class, w.telling(pod)
	for _, name := range images {
		key += "\x04" + name
	}
	c := k.byKey[key]
	if c == nil {
		var err error
		if c, err = newClass(key, pod, want); err != nil {
			return nil, err
		}
		c.images = images
		if len(k.byKey) >= mostClasses {
			w.dropClass()
		}
		k.last++
		c.number = k.last
		verdicts := make([]cluster.Verdict, len(w.sites))
		for i, at := range w.sites {
			if verdicts[i] = c.judge(at); verdicts[i].Reason == whyOther {
				c.others++
			}
		}
		w.snapshot.SetClass(c.number, verdicts)
		k.byKey[key] = c
	}
	c.asked = k.asked
	return c, nil
}

// dropClass forgets the class that was asked for longest ago.
func (w *world) dropClass() {
	var oldest *class
	for _, c := range w.classes.byKey {
		if oldest == nil || c.asked < oldest.asked {
			oldest = c
		}
	}
	delete(w.classes.byKey, oldest.key)
	w.snapshot.DropClass(oldest.number)
}

// rejudge tells every class of a node that has changed.
func (w *world) rejudge(at *site) {
	for _, c := range w.classes.byKey {
		was, now := w.snapshot.Verdict(c.number, at.index), c.judge(at)
		if was.Reason == whyOther {
			c.others--
		}
		if now.Reason == whyOther {
			c.others++
		}
		w.snapshot.SetVerdict(c.number, at.index, now)
	}
}

// odd says whether a node offers its GPUs in a way that package placement has no
// words for: MIG devices as nvidia.com/gpu, whole GPUs in MIG mode, shares of MIG
// devices, or shares of some GPUs beside others that are whole. Pods are tried on
// such nodes one by one.
func odd(gpus []gpu.GPU, s gpu.Sharing) bool {
	if len(s.Devices) > 0 {
		return true
	}
	for name, replicas := range s.Replicas {
		if name != api.ResourceGPU && replicas > 1 {
			return true
		}
	}
	return s.MIGStrategy != gpu.MIGMixed && slices.ContainsFunc(gpus, func(g gpu.GPU) bool { return g.MIGEnabled })
}
