package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
)

// requirements are what every node of a pod must have of labels: its node selector, by key,
// and the expressions of its required affinity if that has one term.
func requirements(pod *v1.Pod) []v1.NodeSelectorRequirement {
	var out []v1.NodeSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		out = append(out, v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{pod.Spec.NodeSelector[key]}})
	}
	if terms := requiredTerms(pod); len(terms) == 1 {
		out = append(out, terms[0].MatchExpressions...)
	}
	return out
}

// isMet reports whether some node is as a requirement of its labels wants.
func (t *Cluster) isMet(r *v1.NodeSelectorRequirement) bool {
	s, err := nodeaffinity.NewNodeSelector(&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{*r}}}})
	return err == nil && slices.ContainsFunc(t.all, s.Match)
}

// isWritten is a requirement as a person would write it: "a=1", "a in (1, 2)", "a > 1".
func isWritten(r *v1.NodeSelectorRequirement) string {
	switch r.Operator {
	case v1.NodeSelectorOpIn:
		if len(r.Values) == 1 {
			return r.Key + "=" + r.Values[0]
		}
		return r.Key + " in (" + strings.Join(r.Values, ", ") + ")"
	case v1.NodeSelectorOpGt:
		return r.Key + " > " + strings.Join(r.Values, "")
	case v1.NodeSelectorOpLt:
		return r.Key + " < " + strings.Join(r.Values, "")
	case v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
	}
	return strings.TrimSpace(r.Key + " " + string(r.Operator) + " " + strings.Join(r.Values, ", "))
}

// labelDetail is why no node has a label about the memory of GPUs, their driver, or their
// MIG strategy that a pod wants, in the words of what nodes have; nil is that no such label
// is what all nodes lack.
func (t *Cluster) labelDetail(pod *v1.Pod) *reasons.Detail {
	for _, r := range requirements(pod) {
		if t.isMet(&r) {
			continue
		}
		var out *reasons.Detail
		switch {
		case !aboutGPUs(r.Key):
		case strings.HasPrefix(r.Key, "nvidia.com/cuda."):
			out = t.driverLabelDetail(&r)
		case r.Key != labelMIGStrategy:
			out = t.memoryDetail(&r)
		default:
			out = t.strategyDetail(&r)
		}
		if out != nil {
			return out
		}
	}
	return nil
}

// aboutGPUs reports whether a label is about the memory of GPUs, their driver, or their MIG
// strategy.
func aboutGPUs(key string) bool {
	return key == api.LabelMemory || devices.MemoryLabel(key) || key == labelMIGStrategy || strings.HasPrefix(key, "nvidia.com/cuda.")
}

// labelMIGStrategy is how a node offers its MIG devices.
const labelMIGStrategy = "nvidia.com/mig.strategy"

// gpusBy lists the values that nodes have of a label, with how many GPUs those nodes have:
// "40960 (16 GPUs)", numbers from the largest. "" is that no node with GPUs has it.
func (t *Cluster) gpusBy(key string) string {
	count := map[string]int{}
	for _, n := range t.all {
		if value := n.Labels[key]; value != "" {
			count[value] += t.viewOf(n.Name).Physical
		}
	}
	var out []string
	for _, value := range slices.SortedFunc(maps.Keys(count), func(a, b string) int { return compareVersions(b, a) }) {
		if count[value] > 0 {
			out = append(out, fmt.Sprintf("%s (%s)", value, gpusText(count[value])))
		}
	}
	if more := len(out) - mostLabels; more > 0 {
		out = append(out[:mostLabels], fmt.Sprint(more, " more"))
	}
	return strings.Join(out, ", ")
}

// compareVersions orders texts such as "550.90.07" by their numbers.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		if c := cmp.Or(cmp.Compare(number(as[i]), number(bs[i])), cmp.Compare(as[i], bs[i])); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(as), len(bs))
}

func gpusText(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprint(n, " GPUs")
}

// memoryDetail is that no node has GPUs of the memory that a label is to have.
func (t *Cluster) memoryDetail(r *v1.NodeSelectorRequirement) *reasons.Detail {
	have := t.gpusBy(api.LabelMemory)
	if have == "" || len(r.Values) == 0 {
		return nil
	}
	most := int64(0)
	for _, n := range t.all {
		most = max(most, number(n.Labels[api.LabelMemory]))
	}
	tell := "; on nodes, " + api.LabelMemory + " is in MiB: " + have
	want, known := wantedMemory(r)
	if known && r.Operator != v1.NodeSelectorOpLt && want > most+most/20 {
		return &reasons.Detail{Code: reasons.CodeGPUMemory, Text: fmt.Sprintf("it wants GPUs with %s, and no GPU has more memory than %d MiB%s", isWritten(r), most, tell)}
	}
	code := reasons.CodeSelector
	if r.Key != api.LabelMemory {
		code = reasons.CodeLabelMissing
	}
	text := "no node has the label " + isWritten(r) + tell
	if near := t.nearestMemory(want); known && near > 0 {
		text += fmt.Sprintf("; select %s=%d", api.LabelMemory, near)
	}
	return &reasons.Detail{Code: code, Text: text}
}

// wantedMemory is the least memory in MiB that a requirement asks for.
func wantedMemory(r *v1.NodeSelectorRequirement) (mib int64, known bool) {
	least := int64(0)
	for _, value := range r.Values {
		if mib, ok := devices.MemoryOf(value); ok && (least == 0 || mib < least) {
			least = mib
		}
	}
	return least, least > 0
}

// nearestMemory is the memory of GPUs, as nodes' labels have it, that is nearest to one in
// MiB: the same but for a twentieth, or the next larger one; 0 is none.
func (t *Cluster) nearestMemory(want int64) int64 {
	best := int64(0)
	for _, n := range t.all {
		has := number(n.Labels[api.LabelMemory])
		if has > 0 && has >= want-want/20 && (best == 0 || has < best) {
			best = has
		}
	}
	return best
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return max(n, 0)
}

// driverLabelDetail is that no node has the driver or the CUDA that a label is to have.
func (t *Cluster) driverLabelDetail(r *v1.NodeSelectorRequirement) *reasons.Detail {
	have := t.gpusBy(r.Key)
	if have == "" {
		return nil
	}
	what := "CUDA"
	if strings.HasPrefix(r.Key, "nvidia.com/cuda.driver") {
		what = "driver"
	}
	return &reasons.Detail{Code: reasons.CodeDriverOld, Text: fmt.Sprintf(
		"no node has the %s that it wants, %s; nodes have %s; use an image for one of these, or have the driver of nodes updated", what, isWritten(r), have)}
}

// strategyDetail is that no node offers its MIG devices in the way that a label is to have.
func (t *Cluster) strategyDetail(r *v1.NodeSelectorRequirement) *reasons.Detail {
	whole := 0
	for _, n := range t.all {
		if n.Labels[r.Key] == "" {
			whole += t.viewOf(n.Name).Physical
		}
	}
	have := cmp.Or(t.gpusBy(r.Key), "no such label")
	text := fmt.Sprintf("no node has the label %s; nodes have %s, and %s are on nodes without it", isWritten(r), have, gpusText(whole))
	switch want := strings.Join(r.Values, ","); {
	case want == string(gpu.MIGNone) && whole > 0:
		text += "; leave it out: nodes whose MIG strategy is none do not have the label"
	case want == string(gpu.MIGSingle):
		text += "; leave it out, and ask for MIG devices by their own resources, as " + api.ResourceMIGPrefix + "1g.5gb"
	case want == string(gpu.MIGMixed):
		text += "; leave it out: with the strategy single, " + api.ResourceGPU + " is a MIG device"
	default:
		text += "; select one of these, or leave it out"
	}
	return &reasons.Detail{Code: reasons.CodeMIGStrategy, Text: text}
}
