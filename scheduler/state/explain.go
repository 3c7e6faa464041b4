package state

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/devices"
)

// The reasons of a class's verdict on a node: why a pod may not use it.
const (
	mayUse uint8 = iota
	WhyUnschedulable
	WhyTaint
	WhyAffinity
	WhyNotOffered
	WhySharing
	WhyOther // package placement cannot describe what the node offers
	WhyQuota // the pod's queue has no quota for the node's kind of GPUs
)

// SharingBarred says of nodes that pods of a queue must not use them.
const SharingBarred = "node(s) offered GPUs in a way that the pod's queue does not allow (spec.sharing)"

// Bars reports whether a pod that asks a node for asks would use GPUs in one of these ways.
func Bars(node *devices.Offer, asks []sharing.Ask, barred sharing.Ways) bool {
	ways, ok := node.Ways(asks)
	return ok && ways&barred != 0
}

// QuotaElsewhere is said of nodes with GPUs for which the pod's queue has no quota.
const QuotaElsewhere = "node(s) with GPUs that its queue has no quota for"

// Explain tells why a pod fits no node, in the words and the order of
// kube-scheduler's own messages: "2 Insufficient nvidia.com/gpu, 1 node(s) had
// untolerated taint(s)". The framework puts "0/3 nodes are available: " before
// it. Equal counts give equal text.
// Nodes with room that filters of the framework refuse are counted by the filters'
// words.
func (w *Request) Explain(counts []placement.Count, filtered ...gang.FilterCount) string {
	sums := map[string]int{}
	for _, c := range counts {
		sums[w.words(c)] += c.Nodes
	}
	for _, f := range filtered {
		sums[f.Why] += f.Nodes
	}
	out := make([]string, 0, len(sums))
	for words, n := range sums {
		out = append(out, fmt.Sprint(n, " ", words))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// words tells one reason.
func (w *Request) words(c placement.Count) string {
	switch c.Reason {
	case placement.Excluded:
		switch c.Why {
		case WhyUnschedulable:
			return "node(s) were unschedulable"
		case WhyTaint:
			return "node(s) had untolerated taint(s)"
		case WhyAffinity:
			return "node(s) didn't match Pod's node affinity/selector"
		case WhySharing:
			return SharingBarred
		case WhyQuota:
			return QuotaElsewhere
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
	if c.Reason == placement.Excluded || c.Reason == placement.WrongProduct && w.Request.Products&^cluster.NoProduct == 0 && w.least() == 0 {
		if names := w.Resources(); len(names) > 0 {
			return "Insufficient " + names[0]
		}
	}
	return w.Lacks()
}

// Lacks says what a node that the pod may use lacks, in words that are the same
// for all nodes, so that they can be counted.
func (w *Request) Lacks() string {
	var a sharing.Ask
	for i := range w.Parts {
		for _, b := range w.Parts[i].Asks {
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
