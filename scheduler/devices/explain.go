package devices

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/sharing"
)

// explain tells why a pod fits no node, in the words and the order of
// kube-scheduler's own messages: "2 Insufficient nvidia.com/gpu, 1 node(s) had
// untolerated taint(s)". The framework puts "0/3 nodes are available: " before
// it. Equal counts give equal text.
func (w *wanted) explain(counts []placement.Count) string {
	sums := map[string]int{}
	for _, c := range counts {
		sums[w.words(c)] += c.Nodes
	}
	out := make([]string, 0, len(sums))
	for words, n := range sums {
		out = append(out, fmt.Sprint(n, " ", words))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// words tells one reason.
func (w *wanted) words(c placement.Count) string {
	switch c.Reason {
	case placement.Excluded:
		switch c.Why {
		case whyUnschedulable:
			return "node(s) were unschedulable"
		case whyTaint:
			return "node(s) had untolerated taint(s)"
		case whyAffinity:
			return "node(s) didn't match Pod's node affinity/selector"
		}
	case placement.TooManyPods:
		return "Too many pods"
	case placement.NotEnoughCPU:
		return "Insufficient cpu"
	case placement.NotEnoughMemory:
		return "Insufficient memory"
	case placement.NotOneClique:
		return "GPUs not in one NVLink clique"
	default: // what is left lacks devices: see lacks
	}
	if c.Reason == placement.Excluded || c.Reason == placement.WrongProduct && w.request.Products&^cluster.NoProduct == 0 && w.least() == 0 {
		if names := w.resources(); len(names) > 0 {
			return "Insufficient " + names[0]
		}
	}
	return w.lacks()
}

// lacks says what a node that the pod may use lacks, in words that are the same
// for all nodes, so that they can be counted.
func (w *wanted) lacks() string {
	var a sharing.Ask
	for i := range w.parts {
		for _, b := range w.parts[i].Asks {
			if _, _, share := b.ShareOf(); a.Resource == "" || share {
				a = b
			}
		}
	}
	size, n, share := a.ShareOf()
	switch {
	case share && n == 1 && size.MilliGPU == 0:
		return fmt.Sprintf("no GPU with %s free", size)
	case share && n == 1:
		return fmt.Sprintf("no GPU with %s of it free", size)
	case share:
		return fmt.Sprintf("too few GPUs with %s free", size)
	case a.LeastGiB > 0:
		return fmt.Sprintf("no free GPU with %d GiB", a.LeastGiB)
	case a.Resource == "":
		return "Insufficient " + api.ResourceGPU
	}
	return "Insufficient " + a.Resource
}

// foremost is the reason that excludes the most nodes, for metrics; what classes
// exclude comes last.
func foremost(counts []placement.Count) placement.Reason {
	best := placement.Count{Reason: placement.Excluded}
	for _, c := range counts {
		if c.Reason != placement.Excluded && c.Nodes > best.Nodes {
			best = c
		}
	}
	return best.Reason
}
