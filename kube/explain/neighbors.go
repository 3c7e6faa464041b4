package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	reasons "berth.dev/berth/core/explain"
)

// neighbors is what a pod says of other pods, and they of it: host ports, pod affinity
// and anti-affinity, topology spread.
//
// Source: kube-scheduler's plugins NodePorts, InterPodAffinity and PodTopologySpread.
// A namespaceSelector is taken to select every namespace, as namespaces are not read.
type neighbors struct {
	t      *Cluster
	pod    *v1.Pod
	ports  []v1.ContainerPort
	near   []domains // one for each required affinity term: where its pods are
	none   bool      // no pod matches any of them, and the pod itself matches all
	apart  []domains // one for each required anti-affinity term
	kept   []domains // those of other pods that select this one
	spread []spread
}

// domains are the values of a node label near which pods are, each with one of them.
type domains struct {
	key, text string
	pods      map[string]string
}

// spread is a constraint with DoNotSchedule, and how many pods it counts in each domain.
type spread struct {
	v1.TopologySpreadConstraint
	counts map[string]int32
	least  int32 // of counts; 0 where there are fewer domains than there must be
	self   int32
}

func (t *Cluster) neighborsOf(pod *v1.Pod) *neighbors {
	out := &neighbors{t: t, pod: pod}
	eachContainer(pod, func(c *v1.Container) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				out.ports = append(out.ports, p)
			}
		}
	})
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		out.none = true
		for i := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			term := &a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i]
			d := t.domainsOf(pod, term)
			out.near = append(out.near, d)
			out.none = out.none && len(d.pods) == 0 && selectsPod(term, pod, pod)
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for i := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			out.apart = append(out.apart, t.domainsOf(pod, &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i]))
		}
	}
	for _, p := range t.antis {
		for i := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			term := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i]
			at := t.nodeOf(p.Spec.NodeName)
			if at == nil || !selectsPod(term, p, pod) {
				continue
			}
			if value, ok := at.Labels[term.TopologyKey]; ok {
				out.kept = append(out.kept, domains{key: term.TopologyKey, text: termText(term), pods: map[string]string{value: t.podNamed(pod, p)}})
			}
		}
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.DoNotSchedule {
			out.spread = append(out.spread, t.spreadOf(pod, c))
		}
	}
	return out
}

// nodeOf is the node of a name, nil if there is none.
func (t *Cluster) nodeOf(name string) *v1.Node {
	i, found := slices.BinarySearchFunc(t.all, name, func(n *v1.Node, name string) int { return strings.Compare(n.Name, name) })
	if !found {
		return nil
	}
	return t.all[i]
}

// selectsPod reports whether a term of a pod selects another.
func selectsPod(term *v1.PodAffinityTerm, of, other *v1.Pod) bool {
	if term.NamespaceSelector == nil {
		if len(term.Namespaces) == 0 && other.Namespace != of.Namespace || len(term.Namespaces) > 0 && !slices.Contains(term.Namespaces, other.Namespace) {
			return false
		}
	}
	s, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	if err != nil || !s.Matches(labels.Set(other.Labels)) {
		return false
	}
	for _, key := range term.MatchLabelKeys {
		if v, ok := of.Labels[key]; ok && other.Labels[key] != v {
			return false
		}
	}
	return true
}

func (t *Cluster) domainsOf(pod *v1.Pod, term *v1.PodAffinityTerm) domains {
	out := domains{key: term.TopologyKey, text: termText(term), pods: map[string]string{}}
	for name, list := range t.on {
		n := t.nodeOf(name)
		if n == nil {
			continue
		}
		value, ok := n.Labels[term.TopologyKey]
		if !ok {
			continue
		}
		for _, p := range list {
			who := t.podNamed(pod, p)
			if old, found := out.pods[value]; (!found || who < old) && selectsPod(term, pod, p) {
				out.pods[value] = who
			}
		}
	}
	return out
}

func termText(term *v1.PodAffinityTerm) string {
	return metav1.FormatLabelSelector(term.LabelSelector) + " by " + term.TopologyKey
}

func (t *Cluster) spreadOf(pod *v1.Pod, c v1.TopologySpreadConstraint) spread {
	out := spread{TopologySpreadConstraint: c, counts: map[string]int32{}}
	s, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return out
	}
	if s.Matches(labels.Set(pod.Labels)) {
		out.self = 1
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, n := range t.all {
		value, ok := n.Labels[c.TopologyKey]
		if !ok {
			continue
		}
		if c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor {
			if match, err := required.Match(n); !match || err != nil {
				continue
			}
		}
		if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor && tolerates(pod, n) != nil {
			continue
		}
		out.counts[value] += 0
		for _, p := range t.on[n.Name] {
			if p.Namespace == pod.Namespace && p.DeletionTimestamp == nil && s.Matches(labels.Set(p.Labels)) {
				out.counts[value]++
			}
		}
	}
	if c.MinDomains == nil || int32(len(out.counts)) >= *c.MinDomains {
		out.least = fewest(out.counts)
	}
	return out
}

// fewest is the smallest count of any domain, 0 without one.
func fewest(counts map[string]int32) int32 {
	if len(counts) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(counts)))
}

// gaps are what other pods keep from n.
func (b *neighbors) gaps(n *v1.Node) []reasons.Gap {
	var out []reasons.Gap
	for _, want := range b.ports {
		if who := b.usesPort(n, &want); who != "" {
			out = append(out, reasons.Gap{Check: reasons.CheckPort, Subject: fmt.Sprint(want.HostPort), Has: who, Do: "take hostPort out, or use another port"})
		}
	}
	for _, d := range b.near {
		if value, ok := n.Labels[d.key]; !b.none && (!ok || d.pods[value] == "") {
			out = append(out, reasons.Gap{Check: reasons.CheckPodAffinity, Subject: d.text, Do: "start such a pod there, or change podAffinity"})
		}
	}
	for _, list := range [][]domains{b.apart, b.kept} {
		for _, d := range list {
			if value, ok := n.Labels[d.key]; ok && d.pods[value] != "" {
				out = append(out, reasons.Gap{Check: reasons.CheckAntiAffinity, Subject: d.text, Has: d.pods[value], Do: "wait until that pod ends, or change podAntiAffinity"})
			}
		}
	}
	for i := range b.spread {
		s := &b.spread[i]
		value, ok := n.Labels[s.TopologyKey]
		text := fmt.Sprintf("%s, maxSkew %d", s.TopologyKey, s.MaxSkew)
		if !ok {
			out = append(out, reasons.Gap{Check: reasons.CheckSpread, Remedy: reasons.Never, Subject: text, Has: "no label " + s.TopologyKey, Do: "label the node, or change topologySpreadConstraints"})
		} else if has := s.counts[value]; has+s.self-s.least > s.MaxSkew {
			out = append(out, reasons.Gap{
				Check: reasons.CheckSpread, Subject: text, Has: fmt.Sprintf("%d such pods in %s=%s, and another domain has %d", has, s.TopologyKey, value, s.least),
				Do: "use whenUnsatisfiable: ScheduleAnyway, or a larger maxSkew",
			})
		}
	}
	return out
}

// usesPort names the pod on n that has a host port, "" if it is free.
func (b *neighbors) usesPort(n *v1.Node, want *v1.ContainerPort) string {
	for _, p := range b.t.on[n.Name] {
		used := false
		eachContainer(p, func(c *v1.Container) {
			used = used || slices.ContainsFunc(c.Ports, func(has v1.ContainerPort) bool { return conflicts(want, &has) })
		})
		if used {
			return b.t.podNamed(b.pod, p)
		}
	}
	return ""
}

// conflicts reports whether two containers cannot both have their host ports on one node.
func conflicts(a, b *v1.ContainerPort) bool {
	all := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	protocol := func(p *v1.ContainerPort) v1.Protocol {
		if p.Protocol == "" {
			return v1.ProtocolTCP
		}
		return p.Protocol
	}
	return a.HostPort == b.HostPort && protocol(a) == protocol(b) && (a.HostIP == b.HostIP || all(a.HostIP) || all(b.HostIP))
}
