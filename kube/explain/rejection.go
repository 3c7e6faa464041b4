package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// gpuResources are the GPU resources that a node has any of, sorted.
func gpuResources(n *v1.Node) []string {
	var out []string
	for name, q := range n.Status.Capacity {
		if request.IsGPU(string(name)) && !q.IsZero() {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return out
}

// keepsOff reports whether a taint keeps pod off nodes that have it.
func keepsOff(taint *v1.Taint, pod *v1.Pod) bool {
	if taint.Effect != v1.TaintEffectNoSchedule && taint.Effect != v1.TaintEffectNoExecute {
		return false
	}
	return !slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool { return t.ToleratesTaint(klog.Background(), taint, false) })
}

// comesAndGoes says whether a taint is one that Kubernetes puts on nodes that are
// not well, or cordoned: what is wrong is told instead.
func comesAndGoes(taint *v1.Taint) bool {
	return strings.HasPrefix(taint.Key, "node.kubernetes.io/") || unwellTaints[taint.Key].is != ""
}

// TolerationOf is the toleration of a taint to write into a pod's spec:
// "{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}".
func TolerationOf(taint *v1.Taint) string {
	t := tolerationOf(taint)
	if t.Operator == v1.TolerationOpExists {
		return fmt.Sprintf("{key: %s, operator: %s, effect: %s}", t.Key, t.Operator, t.Effect)
	}
	return fmt.Sprintf("{key: %s, operator: %s, value: %q, effect: %s}", t.Key, t.Operator, t.Value, t.Effect)
}

// tolerationOf is the toleration of just this taint.
func tolerationOf(taint *v1.Taint) v1.Toleration {
	if taint.Value == "" {
		return v1.Toleration{Key: taint.Key, Operator: v1.TolerationOpExists, Effect: taint.Effect}
	}
	return v1.Toleration{Key: taint.Key, Operator: v1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect}
}

// unhealthyText names the unhealthy GPUs of a node: "; unhealthy: GPU 1 (Xid 79)".
func unhealthyText(view *devices.Node) string {
	var out []string
	for i := range view.GPUs {
		switch g := &view.GPUs[i]; {
		case g.Healthy:
		case g.Xid > 0:
			out = append(out, fmt.Sprintf("GPU %d (Xid %d)", g.Index, g.Xid))
		default:
			out = append(out, fmt.Sprintf("GPU %d", g.Index))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "; unhealthy: " + strings.Join(out, ", ")
}

// gpusOf writes milli-GPUs as GPUs, down to hundredths.
func gpusOf(milli int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%d.%02d", milli/1000, milli%1000/10), ".00")
}

// free is the most GPUs of those that are asked for that are free on a node now,
// whatever else the node lacks.
func (t *Cluster) free(a *ask, n *v1.Node) int64 {
	i, ok := t.snapshot.Find(n.Name)
	if !ok {
		return 0
	}
	if t.counts(a, n) {
		return t.uncounted(n, a.names[0])
	}
	r := t.gpusOnly(a, n)
	for ; r.GPUs > 0; r.GPUs-- {
		if placement.Fit(t.snapshot, i, &r) == placement.Fits {
			return int64(r.GPUs)
		}
	}
	return 0
}

// MetPreference says which of the preferences for nodes of a pod a node meets, by weight:
// "first choice of 3 (weight 100): nvidia.com/gpu.product=Tesla-T4"; "" is that the
// pod has none.
func MetPreference(pod *v1.Pod, n *v1.Node) string {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return ""
	}
	list := slices.Clone(pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	slices.SortStableFunc(list, func(a, b v1.PreferredSchedulingTerm) int { return cmp.Compare(b.Weight, a.Weight) })
	for i := range list {
		terms, err := nodeaffinity.NewPreferredSchedulingTerms(list[i : i+1])
		if err != nil || terms.Score(n) == 0 {
			continue
		}
		return fmt.Sprintf("%s choice of %d (weight %d): %s", nth(i+1), len(list), list[i].Weight, termsText([]v1.NodeSelectorTerm{list[i].Preference}))
	}
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("none of its %d choices", len(list))
}

func nth(n int) string {
	words := []string{"first", "second", "third", "fourth", "fifth"}
	if n <= len(words) {
		return words[n-1]
	}
	return fmt.Sprint(n, "th")
}
