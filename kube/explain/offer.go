package explain

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// unoffered is the first of the named resources that a node has nothing of.
func unoffered(n *v1.Node, list v1.ResourceList, names []string) string {
	for _, name := range names {
		q := list[v1.ResourceName(name)]
		if q.Sign() > 0 {
			continue
		}
		if shareName(name) && devices.GPUNode(n) {
			continue
		}
		return name
	}
	return ""
}

// shareName says whether a resource is one that no node need list: a share by
// size, in Berth's spelling or another's.
func shareName(name string) bool {
	return name == api.ResourceGPUMemory || name == api.AnnotationKAIFraction || name == api.AnnotationKAIMemory || request.IsForeignShare(name)
}

// untolerated is the first taint that keeps a pod off a node for good, as kubectl
// writes it, or "".
func untolerated(n *v1.Node, tolerations []v1.Toleration) string {
	t, found := Untolerated(n, tolerations)
	if !found {
		return ""
	}
	return t.ToString()
}

// valuesOf are the values that nodes have of the key of a label KEY=VALUE, sorted.
func valuesOf(nodes []*v1.Node, label string) []string {
	key, _, _ := strings.Cut(label, "=")
	var out []string
	for _, n := range nodes {
		if v, ok := n.Labels[key]; ok && v != "" {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nearestLabel is the label of a node, KEY=VALUE, that comes nearest to one that no
// node has: of the same key, or of the key by which NVIDIA's labels name the
// product, the one with the most words in common. "" is that none has any.
func nearestLabel(nodes []*v1.Node, label string) string {
	key, value, _ := strings.Cut(label, "=")
	want := labelWords(value)
	best, most := "", 0
	for _, n := range nodes {
		for _, k := range []string{key, api.LabelProduct} {
			v, ok := n.Labels[k]
			if !ok {
				continue
			}
			score := 0
			for _, w := range labelWords(v) {
				if slices.Contains(want, w) {
					score += 2
				}
			}
			if k == key {
				score++
			}
			if at := k + "=" + v; score > 0 && cmp.Or(cmp.Compare(score, most), cmp.Compare(best, at)) > 0 {
				best, most = at, score
			}
		}
	}
	return best
}

// nearestName is the resource, of those that there are, that was probably meant: one of
// nearly the same name, or with the same last part as "amd.com/gpu"; "" is none.
func nearestName(name string, from []string) string {
	if near := gpu.NearestWord(name, from); near != "" {
		return near
	}
	_, last, _ := strings.Cut(name, "/")
	for _, is := range from {
		if _, end, _ := strings.Cut(is, "/"); end == last || strings.TrimSuffix(last, "s") == end {
			return is
		}
	}
	return ""
}

func labelWords(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// NewestCUDA is the newest CUDA that the driver of a node with GPUs gives, of the
// nodes that a pod may use, as NVIDIA's labels tell; zero is unknown.
func NewestCUDA(nodes []*v1.Node, pod *v1.Pod) reasons.CUDA {
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	var newest reasons.CUDA
	for _, n := range nodes {
		if ok, err := required.Match(n); !ok || err != nil || !devices.GPUNode(n) || untolerated(n, pod.Spec.Tolerations) != "" {
			continue
		}
		c := reasons.ParseCUDA(n.Labels["nvidia.com/cuda.runtime-version.full"])
		if c.Major == 0 {
			c = reasons.ParseCUDA(n.Labels["nvidia.com/cuda.runtime.major"] + "." + n.Labels["nvidia.com/cuda.runtime.minor"])
		}
		if newest.Major == 0 || c.Newer(newest) {
			newest = c
		}
	}
	return newest
}
