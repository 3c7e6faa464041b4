package explain

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// kept is what is free of one node and kept for a pod that has none yet.
type kept struct {
	pod       *v1.Pod
	node      string
	placement cluster.Placement
}

// keep has the cluster count as held what is kept for pods that come before pod: the free GPUs, up
// to what they ask for, of the nodes to which they are nominated, or which Berth's scheduler
// reserves for them.
func (t *Cluster) keep(pod *v1.Pod, line *lineup) {
	best := placement.NewBestFit(placement.Setup{Cluster: t.snapshot})
	for _, p := range line.keptFor() {
		if p.Namespace == pod.Namespace && p.Name == pod.Name {
			continue
		}
		node, reserved := keptNode(p)
		first := request.Priority(p) >= request.Priority(pod)
		if reserved {
			first = queue.Compare(line.ticket(p), line.ticket(pod)) < 0
		}
		n := t.nodeOf(node)
		i, found := t.snapshot.Find(node)
		if !first || n == nil || !found {
			continue
		}
		r := request.Demand(p, t.dividedOf(n).Sharing)
		for ; r.GPUs > 0; r.GPUs-- { // of a part of what it asks for, the GPUs alone
			if placement.Fit(t.snapshot, i, &r) == placement.Fits {
				q := t.snapshot.Resolve(i, &r)
				k := kept{pod: p, node: node, placement: cluster.Placement{Node: i, Request: q, Devices: best.Devices(t.snapshot, i, &q, nil)}}
				if t.snapshot.Assume(&k.placement) == nil {
					t.kept = append(t.kept, k)
				}
				break
			}
			r.CPUMilli, r.MemoryBytes = 0, 0
		}
	}
}

// keptNode is the node on which GPUs are kept for a pod without one, "" if there is none, and
// whether Berth's scheduler reserves them.
func keptNode(p *v1.Pod) (node string, reserved bool) {
	if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || request.Ended(p) {
		return "", false
	}
	if c := request.Unscheduled(p); c != nil {
		if _, text, found := strings.Cut(c.Message, "reservation: its GPUs on node "); found {
			node, _, found = strings.Cut(text, " are kept for it")
			if found {
				return node, true
			}
		}
	}
	return p.Status.NominatedNodeName, false
}

// withoutKept releases what is kept until the snapshot is rolled back to a mark before.
func (t *Cluster) withoutKept() {
	for i := range t.kept {
		if t.snapshot.Release(&t.kept[i].placement) != nil {
			return // not reached: keep has assumed it
		}
	}
}

// keptText says for which pods GPUs of a node are kept: "; 1 kept for default/a".
func (t *Cluster) keptText(a *ask, node string) string {
	var out strings.Builder
	for i := range t.kept {
		if k := &t.kept[i]; k.node == node {
			fmt.Fprintf(&out, "; %s kept for %s", gpusText(len(k.placement.Devices)), t.nameFor(a.pod, k.pod))
		}
	}
	return out.String()
}

// keptFree is how many milli-GPUs of a node are kept.
func (t *Cluster) keptFree(node string) int64 {
	sum := int64(0)
	for i := range t.kept {
		if k := &t.kept[i]; k.node == node {
			for _, d := range k.placement.Devices {
				sum += int64(d.MilliGPU)
			}
		}
	}
	return sum
}

// keptDetail is that the pod would fit, were it not for what is kept for others.
func (t *Cluster) keptDetail(a *ask) *reasons.Detail {
	if len(t.kept) == 0 {
		return nil
	}
	mark := t.snapshot.Mark()
	defer t.snapshot.RollBack(mark)
	t.withoutKept()
	mine := t.candidates(a.pod, a.ties)
	for k, i := range mine.nodes {
		if placement.Fit(t.snapshot, i, &mine.asks[k]) == placement.Fits {
			at := slices.IndexFunc(t.kept, func(b kept) bool { return b.placement.Node == i })
			if at < 0 {
				continue
			}
			return &reasons.Detail{Code: reasons.CodeKept, Text: fmt.Sprintf("GPUs of node %s are being kept for %s, which comes first", t.kept[at].node, t.nameFor(a.pod, t.kept[at].pod))}
		}
	}
	return nil
}
