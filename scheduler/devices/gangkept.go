package devices

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// The bindings of a gang are sent in the same moment, and the API server may
// refuse one of them: then the others run, and wait for it. Its place is kept, so
// that it can follow them whatever else comes, and it is sent again and again.
const (
	keepFor     = time.Minute            // since the first refusal; a pod that is refused for ever must not starve others
	firstResend = 100 * time.Millisecond // until the binding is sent again; then twice as long each time
	lastResend  = 5 * time.Second        // at most
	sameNode    = 3                      // refusals on a node until another one is looked for
)

// place is where a member of a gang that runs was sent, and what the API server
// said to it.
type place struct {
	node    string    // "" is nowhere: the member has not been sent, or has lost its place
	since   time.Time // when it was first refused; zero is never. Only a binding makes it forget
	times   int       // refusals since then
	here    int       // of them in a row on node
	refused bool      // the last time the API server said no, rather than nothing
	left    []string  // nodes that it was refused on before
}

// lasts says whether the place is still kept when a binding comes to nothing.
func (p *place) lasts() bool {
	return p.node != "" && (p.since.IsZero() || time.Since(p.since) < keepFor)
}

// keeps is gangBook.keeps of a member, with mu held.
func (m *member) keeps() bool {
	return m.stage == stageKept || m.stage == stageReserved && m.place.lasts()
}

// keeps says whether what is held for a pod is kept when its binding comes to
// nothing. Of the plugins that are told of that, whichever comes first finds the
// same answer.
func (b *gangBook) keeps(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of[uid]
	return t != nil && t.members[uid].keeps()
}

// answered notes that a binding of a pod came to nothing; refused says that the
// API server said so. It gives the name of the gang that runs without the pod
// until it is sent again, or "".
func (b *gangBook) answered(uid types.UID, refused bool) (gang string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of[uid]
	if t == nil || !t.members[uid].keeps() {
		return ""
	}
	t.members[uid].place.refused = refused
	return t.gang.Name
}

// sent notes where members that may go now are sent, with mu held.
func (t *team) sent(uids ...types.UID) {
	for _, uid := range uids {
		t.members[uid].place.node = t.plan.nodes[uid]
	}
}

// keep has member m wait in its place, with mu held, and wakes it after a while.
func (b *gangBook) keep(t *team, m *member) {
	uid, p := m.pod.UID, &m.place
	if p.since.IsZero() {
		p.since = time.Now()
	}
	p.times++
	if p.here++; !p.refused {
		p.here = 0 // it may have arrived there
	}
	t.fulfil(uid)
	b.move(t, m, stageKept)
	b.rank(t, uid)
	time.AfterFunc(min(lastResend, firstResend<<min(p.times-1, 10)), func() {
		b.mu.Lock()
		waits := b.of[uid] == t && t.members[uid] == m && m.stage == stageKept
		pod := m.pod
		b.mu.Unlock()
		if waits {
			b.wake([]*v1.Pod{pod})
		}
	})
}

// lose takes the place of member m away, with mu held; it is to be planned anew.
func (b *gangBook) lose(t *team, m *member) (free []types.UID) {
	b.move(t, m, stagePending)
	m.place.node, m.place.here = "", 0
	return []types.UID{m.pod.UID}
}

// placeOf gives the node that is kept for a pod, "" where none is. With it comes
// what is to be planned where the pod was refused there too often.
func (b *gangBook) placeOf(uid types.UID) (node string, away *gangTask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of[uid]
	if t == nil || t.members[uid].stage != stageKept {
		return "", nil
	}
	m := t.members[uid]
	if node = m.place.node; m.place.here >= sameNode {
		away = &gangTask{
			gang: t.gang, pods: []*v1.Pod{m.pod}, need: 1, near: t.near(uid), rest: true,
			avoid: map[types.UID][]string{uid: append(slices.Clone(m.place.left), node)},
		}
	}
	return node, away
}

// near lists the nodes of the members that have a place, but for one.
func (t *team) near(but types.UID) []string {
	var out []string
	for uid, m := range t.members {
		switch {
		case uid == but:
		case m.stage == stageBound:
			out = append(out, m.pod.Spec.NodeName)
		case m.stage == stageKept:
			out = append(out, m.place.node)
		}
	}
	slices.Sort(out)
	return out
}

// elsewhere gives the node where a pod is to be tried that is kept on one which
// it was refused on: another that has room for it, else the same.
func (g *GangPlans) elsewhere(ctx context.Context, pod *v1.Pod, node string, task *gangTask) string {
	nodes, refusal, _, err := g.plan(ctx, task)
	if err != nil || refusal != nil {
		if err != nil {
			klog.FromContext(ctx).Error(err, "A member that is refused stays where it is", "pod", klog.KObj(pod), "node", node)
		}
		return node
	}
	g.book.moved(pod.UID, nodes[pod.UID])
	return nodes[pod.UID]
}

// moved notes that another node is kept for a pod.
func (b *gangBook) moved(uid types.UID, node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.of[uid]; t != nil && t.members[uid].stage == stageKept {
		p := &t.members[uid].place
		p.left, p.node, p.here = append(p.left, p.node), node, 0
	}
}
