package quota

import (
	"fmt"
	"regexp"
)

// ReasonReclaimed is the reason of the condition DisruptionTarget, and of events, of a pod that
// is evicted to give quota back.
const ReasonReclaimed = "QuotaReclaimed"

// Reclaim is the eviction of a pod for a workload of another queue, in words that people of both may
// read: it names queues, and neither the workload nor its user.
type Reclaim struct {
	From string // the queue of the pod, which holds more than its nominal quota
	By   string // the queue that takes nominal quota back
}

// Sentence says why the pod is evicted.
func (r *Reclaim) Sentence() string {
	return fmt.Sprintf("queue %s takes back nominal quota that queue %s has borrowed; priorities do not count between queues", r.By, r.From)
}

var reclaims = regexp.MustCompile(`queue (\S+) takes back nominal quota that queue (\S+) has borrowed`)

// ReclaimIn returns the Reclaim that a text has the Sentence of.
func ReclaimIn(text string) (r Reclaim, ok bool) {
	found := reclaims.FindStringSubmatch(text)
	if found == nil {
		return Reclaim{}, false
	}
	return Reclaim{From: found[2], By: found[1]}, true
}

// OnNode says it of a pod on a node, such as "evicted from node n1 to return quota: ...".
func (r *Reclaim) OnNode(node string) string {
	return fmt.Sprintf("evicted from node %s to return quota: %s", node, r.Sentence())
}

// Message is that of the condition DisruptionTarget that a scheduler writes.
func (r *Reclaim) Message(scheduler string) string {
	return fmt.Sprintf("%s: evicted to return quota: %s", scheduler, r.Sentence())
}
