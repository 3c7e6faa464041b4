package quota

import (
	"fmt"

	"berth.dev/berth/core/sharing"
)

// narrow works out in which ways pods of each queue may use GPUs: a queue that states none has
// those of its parent, and one that states some keeps of them what its parent allows.
func (t *Tree) narrow() {
	t.ways = make([]sharing.Ways, len(t.specs))
	for i := range t.specs {
		above := sharing.AllWays
		if p := t.parent[i]; p >= 0 {
			above = t.ways[p]
		}
		own := t.specs[i].Sharing
		if t.ways[i] = above; own == 0 {
			continue
		}
		t.ways[i] &= own
		if more := own &^ above; more != 0 {
			t.problems = append(t.problems, Problem{
				Queue: t.specs[i].Name, Field: "spec.sharing",
				Text: fmt.Sprintf("Queue %s does not allow %s, so this one does not either", t.barring(t.parent[i], more), more.Text("or")),
			})
		}
	}
}

// barring returns the name of the queue, of queue i and those above it the nearest, that states
// ways in which pods use GPUs without some of these.
func (t *Tree) barring(i int, ways sharing.Ways) string {
	for at := i; at >= 0; at = t.parent[at] {
		if own := t.specs[at].Sharing; own != 0 && !ways.In(own) {
			return t.specs[at].Name
		}
	}
	return ""
}

// Ways returns in which ways pods of a queue may use GPUs: all where there is no such queue.
func (t *Tree) Ways(queue string) sharing.Ways {
	if i, ok := t.index[queue]; ok {
		return t.ways[i]
	}
	return sharing.AllWays
}

// sharing reports whether all nodes that could take a pod would have it use GPUs in a way that queue i
// does not allow. ways are those of Pod.
func (t *Tree) sharing(i int, ways []sharing.Ways) Verdict {
	var barred sharing.Ways
	for _, w := range ways {
		if w.In(t.ways[i]) {
			return Verdict{}
		}
		barred |= w &^ t.ways[i]
	}
	if barred == 0 {
		return Verdict{}
	}
	return Verdict{Cause: Sharing, Queue: t.barring(i, barred), Ways: barred, Allowed: t.ways[i]}
}

// allows reports whether each pod of a workload may use GPUs in a way that queue i allows.
func (t *Tree) allows(i int, w *Workload) bool {
	for k := range w.Pods {
		if no := t.sharing(i, w.Pods[k].Ways); no.Cause != None {
			return false
		}
	}
	return true
}
