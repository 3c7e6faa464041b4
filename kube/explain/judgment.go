package explain

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/devices"
)

// judgment is every node's answer to one ask, which stays good for nodes that do not change.
type judgment struct {
	ask    *ask
	nodes  []reasons.NodeGaps // as Cluster.all
	offers []offer            // the same
}

// offer is what one node has of what is asked for.
type offer struct{ total, free int64 }

// newJudgment asks every node.
func (t *Cluster) newJudgment(a *ask) *judgment {
	j := &judgment{ask: a, nodes: make([]reasons.NodeGaps, len(t.all)), offers: make([]offer, len(t.all))}
	for i := range t.all {
		j.askNode(t, i)
	}
	return j
}

// askNode asks one node, by its position.
func (j *judgment) askNode(t *Cluster, i int) {
	n := t.all[i]
	gaps := t.gaps(j.ask, n)
	j.nodes[i] = reasons.NodeGaps{Node: n.Name, Gaps: gaps}
	j.offers[i] = t.offer(j.ask, n, gaps)
}

// verdict is what the answers come to.
func (j *judgment) verdict(t *Cluster) *reasons.Verdict {
	v := &reasons.Verdict{Asks: j.ask.amounts, Nodes: j.nodes, Causes: reasons.Causes(j.nodes)}
	for _, o := range j.offers {
		v.Total, v.Free, v.Most = v.Total+o.total, v.Free+o.free, max(v.Most, o.free)
		if o.free > 0 {
			v.FreeOn++
		}
	}
	t.hints(v, j.ask)
	v.Detail = t.detail(v, j.ask)
	return v
}

// refresh reads one node again, with the pods that are on it now; the node must be the
// same object as before, or another of its name. It reports false if the cluster must be
// read again as a whole. StartEstimate and Helps of a Cluster that was refreshed are not valid.
func (t *Cluster) refresh(i int, n *v1.Node, pods []*v1.Pod) bool {
	views := []devices.Node{devices.CountNode(n, withGPUs(pods), nil)}
	if !t.read.Refresh(opened([]*v1.Node{n}, views)[0], pods) {
		return false
	}
	was := t.view.Nodes[i].Remark
	t.view.Nodes[i] = views[0]
	if t.all[i] != n {
		t.empty = nil
		delete(t.sharing, n.Name)
	}
	same := t.all[i] == n
	t.all[i] = n
	if !same || was != views[0].Remark {
		t.openNodes()
	}
	t.on[n.Name] = pods
	delete(t.going, n.Name)
	kept := t.antis[:0]
	for _, p := range t.antis {
		if p.Spec.NodeName != n.Name {
			kept = append(kept, p)
		}
	}
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			t.going[n.Name] = append(t.going[n.Name], p)
		}
		if keepsApart(p) {
			kept = append(kept, p)
		}
	}
	slices.SortFunc(kept, byPodName)
	t.antis = kept
	return true
}

func withGPUs(pods []*v1.Pod) []*v1.Pod {
	var out []*v1.Pod
	for _, p := range pods {
		if len(AmountsOf(p)) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// alone reports whether the pods of other nodes have no say in whether the pod fits on one.
func (b *neighbors) alone() bool {
	return len(b.near) == 0 && len(b.apart) == 0 && len(b.kept) == 0 && len(b.spread) == 0
}
