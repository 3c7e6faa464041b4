package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// change is one change of a pod that may help.
type change struct {
	text  string
	apply func(*v1.Pod)
}

// Help is a change with which a pod would fit.
type Help struct {
	reasons.Relief
	Pod *v1.Pod // with the change
}

// Reliefs are Helps without their pods.
func (t *Cluster) Reliefs(pod *v1.Pod) []reasons.Relief { return reliefs(pod, t.Helps(pod)) }

// reliefs are helps of pod without their pods.
func reliefs(pod *v1.Pod, helps []Help) []reasons.Relief {
	var out []reasons.Relief
	for _, h := range helps {
		h.Command = command(pod, h.Pod)
		out = append(out, h.Relief)
	}
	return out
}

// Helps lists the changes with which pod, which fits nowhere, would fit on a node
// now, the best first: single ones, and pairs only if no single one does. Each was
// judged in full, on every check, on the cluster as it is; what does not help is left
// out.
func (t *Cluster) Helps(pod *v1.Pod) []Help { return t.helps(pod, nil) }

// helps is Helps with what the nodes say of pod; nil is that they were not asked.
func (t *Cluster) helps(pod *v1.Pod, v *reasons.Verdict) []Help {
	if _, fits := t.Fits(pod); fits {
		return nil // it waits for something that no change of these removes
	}
	changes := t.changes(pod, v)
	var out []Help
	if h, ok := t.fewer(pod); ok {
		out = append(out, h)
	}
	for _, c := range changes {
		if h, ok := t.try(pod, c); ok {
			out = append(out, h)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, first := range changes {
		changed := pod.DeepCopy()
		first.apply(changed)
		add := func(h Help) {
			if second := h.Change; !slices.ContainsFunc(out, func(b Help) bool { return b.Change == second+", and "+first.text }) {
				h.Change = first.text + ", and " + second
				out = append(out, h)
			}
		}
		if h, ok := t.fewer(changed); ok {
			add(h)
		}
		for _, second := range t.changes(changed, nil) {
			if h, ok := t.try(changed, second); ok {
				add(h)
			}
		}
	}
	return out[:min(len(out), mostPairs)]
}

// try judges one change of a pod.
func (t *Cluster) try(pod *v1.Pod, c change) (Help, bool) {
	changed := pod.DeepCopy()
	c.apply(changed)
	node, ok := t.Fits(changed)
	return Help{Relief: reasons.Relief{Change: c.text, Node: node}, Pod: changed}, ok && !quotaRefuses(t.quotas, changed, pod)
}

// mostPairs is how many double changes are shown.
const mostPairs = 3

// changes are those that could help a pod at all, by what nodes lack for it: v, or nil if they were not asked.
func (t *Cluster) changes(pod *v1.Pod, v *reasons.Verdict) []change {
	anywhere := change{"leave the node selector and affinity out", func(p *v1.Pod) {
		p.Spec.NodeSelector = nil
		if p.Spec.Affinity != nil {
			p.Spec.Affinity.NodeAffinity = nil
		}
	}}
	var out []change
	chooses := len(requirements(pod)) > 0 || len(requiredTerms(pod)) > 0
	last := slices.ContainsFunc(requirements(pod), func(r v1.NodeSelectorRequirement) bool { return aboutGPUs(r.Key) })
	if chooses && !last {
		out = append(out, anywhere)
	}
	seen := map[string]bool{}
	add := func(list []change) {
		for _, made := range list {
			if !seen[made.text] {
				seen[made.text] = true
				out = append(out, made)
			}
		}
	}
	if v == nil {
		v = t.Judge(pod)
	}
	causes := v.Causes
	for i := range causes {
		add(t.changesFor(pod, &causes[i].Gap))
	}
	for i := range causes { // a part of a GPU is not what it asked for
		if g := &causes[i].Gap; g.Check == reasons.CheckGPUs || g.Check == reasons.CheckOffered {
			add(t.parts(pod, g.Subject))
		}
	}
	if chooses && last { // it needs GPUs of a kind, so another such kind comes first
		out = append(out, anywhere)
	}
	return out
}

// changesFor are the changes that remove a gap.
func (t *Cluster) changesFor(pod *v1.Pod, g *reasons.Gap) []change {
	switch g.Check { //nolint:exhaustive // of the rest the pod cannot change anything by itself
	case reasons.CheckSelector:
		return t.otherValues(pod, g)
	case reasons.CheckAffinity:
		return t.otherTerms(pod)
	case reasons.CheckVolume:
		return []change{{"leave volume claim " + g.Subject + " out, or use another", func(p *v1.Pod) { leaveOut(p, g.Subject) }}}
	case reasons.CheckTaint:
		for _, n := range t.all {
			for i := range n.Spec.Taints {
				if taint := n.Spec.Taints[i]; taint.ToString() == g.Subject {
					return []change{{"tolerate the taint " + g.Subject, func(p *v1.Pod) {
						p.Spec.Tolerations = append(p.Spec.Tolerations, tolerationOf(&taint))
					}}}
				}
			}
		}
	case reasons.CheckCPU:
		return t.less(pod, v1.ResourceCPU, "CPU")
	case reasons.CheckMemory:
		return t.less(pod, v1.ResourceMemory, "memory")
	case reasons.CheckPort:
		return []change{{"take hostPort " + g.Subject + " out", func(p *v1.Pod) {
			eachContainer(p, func(c *v1.Container) {
				for i := range c.Ports {
					c.Ports[i].HostPort = 0
				}
			})
		}}}
	case reasons.CheckPodAffinity:
		return []change{{"leave podAffinity out", func(p *v1.Pod) { p.Spec.Affinity.PodAffinity = nil }}}
	case reasons.CheckAntiAffinity:
		if pod.Spec.Affinity != nil && pod.Spec.Affinity.PodAntiAffinity != nil {
			return []change{{"leave podAntiAffinity out", func(p *v1.Pod) { p.Spec.Affinity.PodAntiAffinity = nil }}}
		}
	case reasons.CheckSpread:
		return []change{{"let topologySpreadConstraints be ScheduleAnyway", func(p *v1.Pod) {
			for i := range p.Spec.TopologySpreadConstraints {
				p.Spec.TopologySpreadConstraints[i].WhenUnsatisfiable = v1.ScheduleAnyway
			}
		}}}
	case reasons.CheckOffered:
		if near := nearestName(g.Subject, t.resources()); near != "" {
			return []change{{"ask for " + near + " instead of " + g.Subject, func(p *v1.Pod) { rename(p, v1.ResourceName(g.Subject), v1.ResourceName(near)) }}}
		}
	}
	return nil
}

// parts asks for one part of a GPU, a MIG device or a share that some node offers, in the
// place of one GPU.
func (t *Cluster) parts(pod *v1.Pod, name string) []change {
	if name != api.ResourceGPU || request.Of(pod)[name] != 1 {
		return nil
	}
	var out []change
	for _, part := range t.resources() {
		if part == api.ResourceGPUShared || strings.HasPrefix(part, api.ResourceMIGPrefix) {
			out = append(out, change{"ask for " + part + " instead of " + name, func(p *v1.Pod) { rename(p, v1.ResourceName(name), v1.ResourceName(part)) }})
		}
	}
	return out
}

// mostLabels is how many other values of a label are tried.
const mostLabels = 8

// otherValues selects, in the place of a label that a node has not, each value that nodes
// have of it, and leaves it out where the pod wants other labels, too.
func (t *Cluster) otherValues(pod *v1.Pod, g *reasons.Gap) []change {
	key, want, _ := strings.Cut(g.Subject, "=")
	var out []change
	if mib, ok := devices.MemoryOf(want); ok && devices.MemoryLabel(key) {
		if near := t.nearestMemory(mib); near > 0 {
			value := fmt.Sprint(near)
			out = append(out, change{"select " + api.LabelMemory + "=" + value + " instead of " + g.Subject, func(p *v1.Pod) {
				delete(p.Spec.NodeSelector, key)
				p.Spec.NodeSelector[api.LabelMemory] = value
			}})
		}
	}
	for _, value := range t.nearestValues(key, want) {
		out = append(out, change{"select " + key + "=" + value + " instead", func(p *v1.Pod) { p.Spec.NodeSelector[key] = value }})
	}
	if len(requirements(pod)) > 1 {
		out = append(out, change{"leave " + g.Subject + " out of the node selector", func(p *v1.Pod) { delete(p.Spec.NodeSelector, key) }})
	}
	return out
}

// otherTerms wants, in the place of each expression of a pod's required affinity that no
// node meets, each value that nodes have.
func (t *Cluster) otherTerms(pod *v1.Pod) []change {
	terms := requiredTerms(pod)
	if len(terms) != 1 {
		return nil
	}
	var out []change
	for i, e := range terms[0].MatchExpressions {
		if t.isMet(&e) {
			continue
		}
		for _, value := range t.nearestValues(e.Key, strings.Join(e.Values, ",")) {
			out = append(out, change{"want " + e.Key + "=" + value + " in its node affinity instead", func(p *v1.Pod) {
				at := &requiredTerms(p)[0].MatchExpressions[i]
				at.Operator, at.Values = v1.NodeSelectorOpIn, []string{value}
			}})
		}
	}
	return out
}

// nearestValues are the values that nodes have of a label beside the wanted one: of numbers
// the nearest first, of words those with most in common.
func (t *Cluster) nearestValues(key, want string) []string {
	out := valuesOf(t.all, key+"=")
	out = slices.DeleteFunc(out, func(value string) bool { return value == want })
	amount := func(value string) int64 {
		if mib, ok := devices.MemoryOf(value); ok && key == api.LabelMemory {
			return mib
		}
		whole, _, _ := strings.Cut(value, ".")
		return number(whole)
	}
	if n := amount(want); n > 0 {
		away := func(value string) int64 { return max(amount(value)-n, n-amount(value)) }
		slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(away(a), away(b)) })
	}
	if amount(want) == 0 {
		words := labelWords(want)
		alike := func(value string) int {
			return len(slices.DeleteFunc(labelWords(value), func(w string) bool { return !slices.Contains(words, w) }))
		}
		slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(alike(b), alike(a)) })
	}
	return out[:min(len(out), mostLabels)]
}

// leaveOut removes the volumes of a claim, and what mounts them.
func leaveOut(p *v1.Pod, claim string) {
	var names []string
	p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v v1.Volume) bool {
		of := v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim || v.Ephemeral != nil && p.Name+"-"+v.Name == claim
		if of {
			names = append(names, v.Name)
		}
		return of
	})
	eachContainer(p, func(c *v1.Container) {
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return slices.Contains(names, m.Name) })
		c.VolumeDevices = slices.DeleteFunc(c.VolumeDevices, func(d v1.VolumeDevice) bool { return slices.Contains(names, d.Name) })
	})
}
