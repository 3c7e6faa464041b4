package preempt

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/evict"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/preempt/candidates"
	schedulerqueue "berth.dev/berth/scheduler/queue"
	"berth.dev/berth/scheduler/reserve"
	"berth.dev/berth/scheduler/runtimes"
)

// PreemptionName is the name of the plugin that makes room, in the scheduler's
// configuration. It must come before DefaultPreemption, to which it leaves pods
// that ask for no GPU.
const PreemptionName = "BerthPreemption"

// Preemption makes room for pods with GPUs that fit nowhere, in one profile of
// the scheduler: it evicts the pods of lower priority that stand in their way,
// chosen by package preemption so that what they free are devices that the pod
// can have, and keeps those for it by a hold until it gets them.
//
// It breaks no disruption budget. It does nothing for a pod whose
// preemptionPolicy is Never, and nothing more for one whose room is being made.
type Preemption struct {
	p *nodeindex.Profile // of the same profile: sees the nodes, keeps the holds
	*preemptions
}

// preemptions is what the profiles of one scheduler share.
type preemptions struct {
	*evict.Evictor
	*reserve.Rooms
	cluster      *nodeindex.Cluster
	reservations *reserve.Reservations
	refused      *nodeindex.RefusedRoom
	nodes        *candidates.Cache
	searches     *nodeindex.Searches
	times        *runtimes.Times
	lines        *schedulerqueue.Lines
	budgets      *evict.Budgets  // nil: no profile has the plugin
	broken       func(types.UID) // told of pods whose holds went to others
	least        func(gang string) int
	once         sync.Once
	err          error
}

// NewPreemptions returns what the profiles of one scheduler share: the evictions under
// way and the searches for victims. broken is called with the UID of a pod whose room
// is lost; least returns how many members a gang needs, by its key, or 0; unkept is called
// when reservations end.
func NewPreemptions(c *nodeindex.Cluster, broken func(types.UID), least func(gang string) int, unkept func()) *preemptions {
	rooms, evictor := reserve.NewRooms(), evict.NewEvictor()
	return &preemptions{
		Evictor: evictor, Rooms: rooms, cluster: c, nodes: candidates.NewCache(evictor, least, c.Times), times: c.Times, lines: c.Waiting, searches: nodeindex.NewSearches(), refused: c.Refused, broken: broken, least: least,
		reservations: reserve.New(c, rooms, unkept),
	}
}

// neverText is said of a pod that evicts no other.
const neverText = "preemption: not eligible due to preemptionPolicy=Never."

// gangKey is the key of a gang; "" for nil.
func gangKey(g *request.Gang) string {
	if g == nil {
		return ""
	}
	return g.Key
}

// holdPreemption is why devices are held for a pod that room is made for.
const holdPreemption = "preemption"

// nominate makes a result that sets the pod's nominated node.
func nominate(node string) *fwk.PostFilterResult {
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride}}
}
