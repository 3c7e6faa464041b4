package preempt

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/preemption"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/evict"
	"berth.dev/berth/scheduler/filters"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/preempt/candidates"
	"berth.dev/berth/scheduler/quota"
	"berth.dev/berth/scheduler/reserve"
	"berth.dev/berth/scheduler/state"
)

// preemptor is who needs room.
type preemptor struct {
	pods []*v1.Pod  // in the order in which they are placed
	asks *quota.Ask // the same for quotas
	// minCount is how many of pods must be placed for any to be; 0 is all.
	minCount int
	why      string                                        // of the holds
	may      func(node string) bool                        // whether a node may be used; nil is every one
	gang     string                                        // of which the pods are members; "" is none
	leader   *v1.Pod                                       // whom events name; nil is the first
	domains  func(all []*v1.Node) []map[string]bool        // sets of nodes of which all must be in one; nil is every node
	avoid    []string                                      // nodes not to be used
	awaits   bool                                          // it evicts no pods, and waits for the ends of others
	ends     map[types.UID]string                          // those that it waits for already, with their nodes
	never    bool                                          // it evicts no pods: at most it gets a place of open
	open     reserve.Open                                  // what is reserved for others, and not kept from it
	every    bool                                          // may says yes to all
	check    func(node string, gone []*v1.Pod) *fwk.Status // asks the other filters about one pod; nil is none
	allows   func(node string, gone []*v1.Pod) bool        // the same, while victims are chosen: except the filter that counts devices
	// verify asks them about several pods, and returns a node that they refuse one of
	// them on; where it is nil, they are not asked.
	verify func(s *candidates.List, out *outcome) (node string, err error)
	// movable makes Filters of several pods for a search that asks them about each of its
	// steps. It costs more, and is done only after verify has refused a plan: filtered.
	movable  func(pl *nodeindex.Planner) (*filters.Filters, error)
	filtered bool
}

// priority is that of the least of the pods: for none of them does anybody go
// who is not below it.
func (w *preemptor) priority() int32 {
	if w.never {
		return preemption.Peaceful
	}
	least := request.Priority(w.pods[0])
	for _, pod := range w.pods {
		least = min(least, request.Priority(pod))
	}
	return least
}

// lead is the pod whom events name, and that is tried again.
func (w *preemptor) lead() *v1.Pod { return cmp.Or(w.leader, w.pods[0]) }

// outcome is a plan that has been carried out, as far as it was up to us, or why
// there is none.
type outcome struct {
	plan    preemption.Plan
	nodes   []string      // of each pod; "" where it was left out
	room    *reserve.Room // nil: no plan
	left    int           // whom the room waited for when it was opened
	evicted []*evict.Victim
	refusal string
	short   int64               // milli-GPUs that those who must not go must give back; 0 is not known
	broken  []*v1.Pod           // whose holds were given up for it
	given   []*state.Hold       // these holds
	claim   *quota.Claim        // nil: priorities alone decided
	known   bool                // refusal is that of the last search, as nothing has changed since
	bars    string              // a node whose devices cannot be held
	against nodeindex.Obstacles // what refusal is about
}
