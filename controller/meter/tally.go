package meter

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/audit"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/ledger"
)

// tally is what the meter knows of a cluster, and what it has to write of it.
type tally struct {
	now        func() time.Time
	began      time.Time // when the book did
	alive      time.Time // when a meter was last there before this one
	offers     *queues.Offers
	queues     []*v1alpha1.Queue
	members    *queues.Members
	rules      cost.Rules // of PriceBooks
	ruled      time.Time  // from when on they are known to be what they are
	next       time.Time  // when the next of them begins to count; zero is that all do
	current    bool       // all that was there at the start has been seen
	namespaces map[string]*v1.Namespace
	owners     request.Owners
	had        func(pod string) bool // whether the book has the end of a pod

	nodes map[string]*v1.Node                // by name
	pods  map[string]map[types.UID]*v1.Pod   // with GPUs, not ended, by the name of their node
	dirty map[string]bool                    // names of nodes to be looked at again
	done  map[types.UID]bool                 // pods that have ended and are still there
	known map[string]ledger.Node             // as they are in the book, by UID
	holds *usage.Track[string, ledger.Hold]  // by UID of pods
	ups   *usage.Track[string, int64]        // by UID of nodes
	lost  *usage.Track[string, int64]        // what is stranded, by ledger.StrandKey
	price *usage.Track[string, ledger.Price] // by UID of nodes
	use   uses
	trail trail

	waits   map[types.UID]*v1.Pod  // those that ask for GPUs and have no node
	holders map[types.UID]cost.Pod // of pods with GPUs, as they were found first

	taken    map[string]*taken        // by the name of a node
	off      map[string]time.Duration // by how much the clocks of nodes are ahead of that of the meter, if that is much
	smallest usage.Room               // that a pod with a GPU needs

	batch ledger.Batch
}

// newTally goes on from what the book has.
func newTally(s *ledger.State, now func() time.Time) *tally {
	now = forward(now)
	began, alive := s.Began, s.Alive
	if began.IsZero() {
		began, alive = now(), now()
	}
	if alive.After(now()) { // the clock has been set back
		alive = now()
	}
	return &tally{
		now: now, began: began, alive: alive, ruled: alive, done: map[types.UID]bool{}, offers: &queues.Offers{}, members: queues.NewMembers(nil), namespaces: map[string]*v1.Namespace{}, owners: unread, had: func(string) bool { return false },
		nodes: map[string]*v1.Node{}, pods: map[string]map[types.UID]*v1.Pod{}, dirty: map[string]bool{}, known: s.Nodes,
		holds: usage.NewTrack(s.Holds), ups: usage.NewTrack(s.Ups), lost: usage.NewTrack(s.Strands), price: usage.NewTrack(s.Prices), use: newUses(s, alive),
		trail: trail{map[types.UID]audit.Pod{}, map[types.UID]audit.Queue{}}, taken: map[string]*taken{}, off: map[string]time.Duration{}, smallest: usage.SmallestPod,
		waits: map[types.UID]*v1.Pod{}, holders: map[types.UID]cost.Pod{},
	}
}

// unread is request.Owners if none can be read.
func unread(string, *metav1.OwnerReference) metav1.Object { return nil }

// begins is from when something counts that says itself since when it is so: not from before the book began, as it
// does not have the holders of that time.
func (t *tally) begins(said time.Time) time.Time {
	switch now := t.now(); {
	case said.IsZero(), said.After(now):
		return now
	case said.Before(t.began):
		return t.began
	}
	return said
}

// pod notes how a pod is now.
func (t *tally) pod(p *v1.Pod) {
	t.takes(p)
	if !request.AsksForGPUs(p) {
		return
	}
	t.trace(p)
	if p.Spec.NodeName == "" {
		t.waits[p.UID] = p
		return
	}
	delete(t.waits, p.UID)
	if request.Ended(p) {
		t.ended(p)
		return
	}
	on := t.pods[p.Spec.NodeName]
	if on == nil {
		on = map[types.UID]*v1.Pod{}
		t.pods[p.Spec.NodeName] = on
	}
	on[p.UID] = p
	t.dirty[p.Spec.NodeName] = true
	t.hold(p)
}

// hold notes what a pod holds, if its node is known.
func (t *tally) hold(p *v1.Pod) {
	node := t.nodes[p.Spec.NodeName]
	if node == nil {
		return // it is looked at again when the node comes
	}
	from := t.now()
	switch was, has := t.holds.Has(string(p.UID)); {
	case !has:
		from = t.begins(request.BoundAt(p))
		defer t.owner(p)
	case was.Value.Node != string(node.UID): // the node was made again under its name
		from = t.begins(node.CreationTimestamp.Time)
	}
	parts := int64(0)
	for _, piece := range t.offers.Held(p) {
		parts += piece.Parts
	}
	t.batch.Holds = append(t.batch.Holds, t.holds.Set(string(p.UID), ledger.Hold{Node: string(node.UID), Parts: parts}, from)...)
}

// owner notes whose pod it is.
func (t *tally) owner(p *v1.Pod) {
	t.batch.Pods = append(t.batch.Pods, t.who(p))
}

// labelsOf is the labels of a namespace; nil has none.
func labelsOf(n *v1.Namespace) map[string]string {
	if n == nil {
		return nil
	}
	return n.Labels
}

// ended notes that a pod has ended, and is still there to say when.
func (t *tally) ended(p *v1.Pod) {
	hold, has := t.holds.Has(string(p.UID))
	from := hold.From
	if !has {
		from = t.begins(request.BoundAt(p))
	}
	at, end := t.endOf(p, from)
	if t.done[p.UID] || !has && at.Before(t.began) {
		return
	}
	t.done[p.UID] = true
	if !has && t.had(string(p.UID)) {
		return // the meter before this one wrote when it ended, and may have known better
	}
	if !has {
		held := *p
		held.Status.Phase = v1.PodRunning
		t.hold(&held) // it may have come and gone while no meter was there; if not, the book has the same
	}
	t.end(p, at, end)
}

// endOf returns when a pod ended that has held GPUs since a time, and how that is known.
func (t *tally) endOf(p *v1.Pod, from time.Time) (time.Time, usage.End) {
	last := t.alive
	if _, ran := t.pods[p.Spec.NodeName][p.UID]; ran && t.current {
		last = t.now()
	}
	return usage.Ended(saidEnd(p), from, last, t.now(), t.off[p.Spec.NodeName])
}

// gone notes that a pod is deleted.
func (t *tally) gone(p *v1.Pod) {
	t.leaves(p)
	t.traceGone(p)
	delete(t.waits, p.UID)
	delete(t.holders, p.UID)
	if t.done[p.UID] {
		delete(t.done, p.UID)
		return
	}
	if hold, has := t.holds.Has(string(p.UID)); has && request.Ended(p) {
		at, end := t.endOf(p, hold.From)
		t.end(p, at, end)
		return
	}
	t.end(p, t.now(), usage.End{Source: usage.Seen})
}

func (t *tally) end(p *v1.Pod, at time.Time, end usage.End) {
	t.batch.Holds = append(t.batch.Holds, t.holds.End(string(p.UID), at, end)...)
	t.use.end(string(p.UID), at, end, &t.batch)
	if on := t.pods[p.Spec.NodeName]; on != nil {
		delete(on, p.UID)
		t.dirty[p.Spec.NodeName] = true
	}
}

// saidEnd is when the last container of a pod ended, by the clock of its node; zero is that it does not say.
func saidEnd(p *v1.Pod) (at time.Time) {
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if s := list[i].State.Terminated; s != nil && s.FinishedAt.After(at) {
				at = s.FinishedAt.Time
			}
		}
	}
	return at
}

// missed ends what the book has open and is not there: all that is known is that it was when a meter last was.
func (t *tally) missed() {
	t.current = true
	pods, nodes := map[string]bool{}, map[string]bool{}
	for _, n := range t.nodes {
		nodes[string(n.UID)] = true
	}
	for _, on := range t.pods {
		for uid := range on {
			pods[string(uid)] = true
		}
	}
	end := usage.End{Source: usage.LastSeen, Late: t.now().Sub(t.alive)}
	for _, h := range t.holds.Open() {
		if !pods[h.Key] {
			t.batch.Holds = append(t.batch.Holds, t.holds.End(h.Key, t.alive, end)...)
		}
	}
	t.use.missed(pods, t.alive, end, &t.batch)
	for _, u := range t.ups.Open() {
		if !nodes[u.Key] {
			t.down(u.Key, t.alive, end)
		}
	}
}
