package filters

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// kind is pods that filters cannot tell apart.
type kind struct {
	pod     *v1.Pod
	state   fwk.CycleState
	only    sets.Set[string] // nodes that PreFilter leaves; nil is every one
	refused *fwk.Status      // PreFilter's, where it refuses the pod; nil is that it does not
	spreads bool             // by topology: PreFilter is asked again after each change
	far     bool             // a placement on one node may change the answer for another
	stale   bool             // PreFilter is to be asked again
	forbids map[domain]int   // where pods placed tentatively want none of this kind beside them
	keys    map[string]int   // topology keys of forbids
	answers map[string]answer
}

// answer is what the filters said of a node after so many changes.
type answer struct {
	why     string
	changes int
}

// domain is the nodes with one value of a topology label.
type domain struct{ key, value string }

// askedBy adds the labels of other pods that a pod's constraints ask for.
func askedBy(pod *v1.Pod, keys sets.Set[string]) {
	add := func(s *metav1.LabelSelector, more []string) {
		keys.Insert(more...)
		if s == nil {
			return
		}
		for key := range s.MatchLabels {
			keys.Insert(key)
		}
		for i := range s.MatchExpressions {
			keys.Insert(s.MatchExpressions[i].Key)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		add(c.LabelSelector, c.MatchLabelKeys)
	}
	a := pod.Spec.Affinity
	if a == nil {
		return
	}
	var terms []v1.PodAffinityTerm
	if a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	for i := range terms {
		add(terms[i].LabelSelector, slices.Concat(terms[i].MatchLabelKeys, terms[i].MismatchLabelKeys))
	}
}

// kindKey is equal for pods of one namespace that filters cannot tell apart: with
// equal specs, except for what only a kubelet reads, and equal labels of those in
// telling.
func kindKey(pod *v1.Pod, telling sets.Set[string]) string {
	spec := pod.Spec
	spec.Hostname, spec.Subdomain, spec.HostAliases = "", "", nil
	spec.InitContainers, spec.Containers = bareContainers(spec.InitContainers), bareContainers(spec.Containers)
	spec.Volumes = nil
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.ConfigMap != nil, v.Secret != nil, v.Projected != nil, v.DownwardAPI != nil, v.EmptyDir != nil:
		default:
			spec.Volumes = append(spec.Volumes, *v)
		}
	}
	raw, err := spec.Marshal()
	if err != nil {
		return string(pod.UID) // unlike any other
	}
	key := append([]byte(pod.Namespace), 0)
	for _, label := range sets.List(telling) {
		key = append(append(append(append(key, label...), 1), pod.Labels[label]...), 0)
	}
	if slices.ContainsFunc(spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil }) ||
		slices.ContainsFunc(spec.ResourceClaims, func(c v1.PodResourceClaim) bool { return c.ResourceClaimTemplateName != nil }) {
		key = append(append(key, pod.UID...), 0) // its claims are made from templates
	}
	return string(append(key, raw...))
}

// bareContainers is containers with what decides where they can run.
func bareContainers(list []v1.Container) []v1.Container {
	out := make([]v1.Container, len(list))
	for i := range list {
		c := &list[i]
		out[i] = v1.Container{Image: c.Image, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	}
	return out
}

// portsTaken reports whether a pod asks for a host port that is taken on a node.
func portsTaken(info fwk.NodeInfo, pod *v1.Pod) bool {
	used := info.GetUsedPorts()
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, p := range list[i].Ports {
				if p.HostPort > 0 && used.CheckConflict(p.HostIP, string(p.Protocol), p.HostPort) {
					return true
				}
			}
		}
	}
	return false
}

// forbid counts the required anti-affinity of a pod on a node against pods of k. The
// plugin looks at it only where other pods of the cluster have some too.
func (k *kind) forbid(info fwk.PodInfo, node *v1.Node, by int) {
	for _, term := range info.GetRequiredAntiAffinityTerms() {
		value, ok := node.Labels[term.TopologyKey]
		if !ok || !term.Matches(k.pod, nil) {
			continue
		}
		k.forbids[domain{term.TopologyKey, value}] += by
		if k.keys[term.TopologyKey] += by; k.keys[term.TopologyKey] == 0 {
			delete(k.keys, term.TopologyKey)
		}
	}
}
