package preempt

import (
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/preemption"
	quotas "berth.dev/berth/core/quota"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/preempt/candidates"
	"berth.dev/berth/scheduler/quota"
)

// claim has the quotas decide which holders may be evicted for w, where w or they are of a
// queue. It is nil where w is of none: then priorities decide alone. later is when more may be, as they are
// protected for a time; zero is never.
func (x *Preemption) claim(s *candidates.List, w *preemptor) (claim *quota.Claim, later time.Time) {
	claim = x.p.Cluster.Quota.Claim(w.asks)
	if claim == nil || !w.awaits && s.Lowest >= w.priority() && !claim.Takes() {
		return nil, later // no pod is below w, and none has borrowed what is its own: the search ends with that
	}
	for i := range s.Cluster.Holders {
		roles, when := claim.Roles(s.Pods[i])
		later = quotas.Sooner(later, when)
		holders := s.Cluster.Holders[i]
		copied := false
		for k := range holders {
			h := &holders[k]
			role := roles[k]
			if h.Leaving || role == quota.Free || role == quota.Role(quotas.Yields) {
				continue
			}
			if !copied {
				holders = slices.Clip(slices.Clone(holders))
				h, copied = &holders[k], true
			}
			switch role {
			case quota.Role(quotas.Borrows):
				h.Priority = math.MinInt32
			case quota.Role(quotas.Spared): // it goes where no other does
				h.Priority = math.MinInt32 + 1
			default:
				h.Fixed = true
				continue
			}
			s.Lowest = min(s.Lowest, h.Priority)
		}
		s.Cluster.Holders[i] = holders
	}
	return claim, later
}

// owing is claim for a w whose plan evicts no pods, before candidates.List.PayBack: it is nil where there is quota for w, which is the usual case, since
// what the quotas say of each holder is of no use then.
func (x *Preemption) owing(pl *nodeindex.Planner, s *candidates.List, w *preemptor, plan *preemption.Plan) *quota.Claim {
	claim := x.p.Cluster.Quota.Claim(w.asks)
	if claim == nil || claim.Affords(candidates.KindOf(pl, claim, plan)) {
		return nil
	}
	claim, _ = x.claim(s, w)
	return claim
}

// queueOf is equal for pods that count on the same quota.
func (x *Preemption) queueOf(pods []*v1.Pod) string { return x.p.Cluster.Quota.Account(pods[0]) }

// byAlternatives does what looks for room for w, where its quotas tell kinds of GPUs apart of one kind
// after the other, in the order in which its queue prefers them, until there is room. Else it is
// the outcome for the first, with what is lacking least.
func (x *Preemption) byAlternatives(w *preemptor, do func() (*outcome, error)) (*outcome, error) {
	q := x.p.Cluster.Quota
	ways := q.Alternatives(w.asks)
	if len(ways) == 0 {
		return do()
	}
	defer q.Narrow(w.asks, nil)
	var first *outcome
	for _, kinds := range ways {
		q.Narrow(w.asks, kinds)
		w.filtered = false
		out, err := do()
		if err != nil || out.room != nil {
			return out, err
		}
		if first == nil {
			first = out
		}
		first.short = min(first.short, out.short)
		first.against.Kept, first.against.Others = first.against.Kept || out.against.Kept, first.against.Others || out.against.Others
	}
	return first, nil
}

// byChoices is byAlternatives for room that comes free by itself: of what there is quota for.
func (x *Preemption) byChoices(w *preemptor, do func() (*outcome, error)) (out *outcome, err error) {
	q := x.p.Cluster.Quota
	n := q.Choices(w.pods...)
	if n == 0 {
		return do()
	}
	defer q.Choose(-1, w.pods...)
	for k := range n {
		q.Choose(k, w.pods...)
		if out, err = do(); err != nil || out.room != nil {
			return out, err
		}
	}
	return out, err
}

// promise keeps quota for pods that have holds.
func (x *Preemption) promise(pods []*v1.Pod) {
	if !x.p.Cluster.Quota.On() {
		return
	}
	nodes := make(map[types.UID]string, len(pods))
	for _, pod := range pods {
		if h := x.p.Cluster.HoldOf(pod.UID); h != nil {
			nodes[pod.UID] = h.Node
		}
	}
	x.p.Cluster.Quota.Promise(pods, nodes)
}
