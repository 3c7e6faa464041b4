package explain

import (
	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// bars are the ways in which a pod must not use GPUs by the rules of its queue; the zero value is none.
type bars struct {
	queue string
	ways  sharing.Ways
	asks  []sharing.Ask // of the pod
}

// barsOf reads what the queue of a pod says.
func (t *Cluster) barsOf(pod *v1.Pod) bars {
	if t.queues == nil || !request.AsksForGPUs(pod) {
		return bars{}
	}
	b := bars{queue: t.queues.QueueOf(pod).Queue}
	if b.ways = sharing.AllWays &^ t.queues.Book.Tree().Ways(b.queue); b.ways != 0 {
		b.asks = request.Asks(pod)
	}
	return b
}

// on returns in which of these ways the pod would use GPUs of a node.
func (b *bars) on(n *v1.Node) sharing.Ways {
	if b.ways == 0 {
		return 0
	}
	ways, _ := devices.OfferOf(n).Ways(b.asks)
	return ways & b.ways
}

// gaps is on as what keeps the pod off a node.
func (b *bars) gaps(n *v1.Node) []reasons.Gap {
	ways := b.on(n)
	if ways == 0 {
		return nil
	}
	return []reasons.Gap{{Check: reasons.CheckSharing, Remedy: reasons.Never, Subject: ways.Text("and"), Has: b.queue}}
}
