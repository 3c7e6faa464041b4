package resume

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"berth.dev/berth/kube/explain"
)

// room is the nodes at the moment of a pass, with what was promised in it.
type room struct {
	r       *Resumer
	cluster *explain.Cluster // nil until it is asked for
}

func (m *room) now() *explain.Cluster {
	if m.cluster == nil {
		m.cluster = m.without(nil)
	}
	return m.cluster
}

// without is the nodes without some pods, which are to be evicted. Pods of objects that were resumed a moment ago
// take room there also before they have a node. If the nodes cannot be counted there are none.
func (m *room) without(gone map[types.UID]bool) *explain.Cluster {
	come := map[types.UID][]int{} // pods to come, and pods without a node, by set; read before pods are: nothing is missed
	for uid, e := range m.r.line.entries {
		if !e.until.IsZero() {
			come[uid] = m.r.Quota.Awaited(e.waits)
		}
	}
	held, pods := m.r.Held(), m.r.Pods()
	pods = slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return gone[p.UID] })
	for i, p := range pods {
		if p.Spec.NodeName != "" {
			continue
		}
		if node := held[p.UID]; node != "" {
			pods[i] = p.DeepCopy()
			pods[i].Spec.NodeName = node
		} else if ref := metav1.GetControllerOfNoCopy(p); ref != nil && come[ref.UID] != nil {
			if k := m.r.line.entries[ref.UID].waits.SetOf(p); k >= 0 {
				come[ref.UID][k]++
			}
		}
	}
	c, err := explain.NewCluster(m.r.Nodes(), pods)
	if err != nil {
		klog.Background().Error(err, "Nodes cannot be counted, so nothing is resumed")
		c, _ = explain.NewCluster(nil, nil)
	}
	for uid, counts := range come {
		count := 0
		for _, n := range counts {
			count += n
		}
		if count > 0 {
			c.Room(m.r.line.entries[uid].waits.Part(counts), count)
		}
	}
	return c
}
