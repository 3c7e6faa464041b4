package nodeindex

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// telling is the labels that tell the pods of a Trial apart for a filter: those in
// which they differ and that a selector asks for, of their own or of a pod with
// required anti-affinity. The numbers that Jobs and StatefulSets give to their pods
// are usually asked for by none.
func (t *Trial) telling() sets.Set[string] {
	differ := sets.New[string]()
	for _, pod := range t.pods {
		for key, value := range pod.Labels {
			if other, ok := t.pods[0].Labels[key]; !ok || other != value {
				differ.Insert(key)
			}
		}
		for key := range t.pods[0].Labels {
			if _, ok := pod.Labels[key]; !ok {
				differ.Insert(key)
			}
		}
	}
	if len(differ) == 0 {
		return nil
	}
	asked := sets.New[string]()
	for _, pod := range t.pods {
		askedBy(pod, asked)
	}
	if nodes, err := t.pl.All.HavePodsWithRequiredAntiAffinityList(); err == nil {
		for _, n := range nodes {
			for _, p := range n.GetPodsWithRequiredAntiAffinity() {
				askedBy(p.GetPod(), asked)
			}
		}
	}
	d := t.pl.P.Cluster
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for _, h := range d.Holds {
		askedBy(h.Pod, asked)
	}
	return differ.Intersection(asked)
}

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
