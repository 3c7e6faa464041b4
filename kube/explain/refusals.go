package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/devices"
)

// Nodes are the nodes of a cluster as a scheduler has them, in any order that stays the
// same while no node comes or goes.
type Nodes interface {
	Len() int
	// Node is one of them, and a number that is another after each change of the node or of
	// the pods on it.
	Node(i int) (n *v1.Node, generation int64)
	// Pods are the pods on it that have not ended.
	Pods(i int) []*v1.Pod
}

// Refusals says why pods are refused, in the sentences of `berth why`: it judges each
// distinct ask once, and after that only the nodes that have changed. It is not safe for
// concurrent use.
type Refusals struct {
	cluster *Cluster
	seen    []seenNode // as the Nodes followed last
	changes int64      // so far
	at      []int64    // by the position in cluster: the change that came last to the node
	asks    map[string]*rememberedAsk
	dra     devices.DRA
	// byDefault is as that of Cluster.
	byDefault string

	read  pause // reading of the whole cluster
	swept time.Time
}

type seenNode struct {
	name       string
	generation int64
	at         int // position in cluster
}

// rememberedAsk is one ask.
type rememberedAsk struct {
	judgment *judgment
	verdict  *reasons.Verdict
	changes  int64 // Refusals.changes that verdict is of
	used     time.Time
	whole    pause // asking every node
}

// mostAsks is how many asks are remembered: one takes some 300 KB for 1,000 nodes.
const mostAsks = 32

// sweepEvery is how old what is said may be.
const sweepEvery = time.Millisecond

// NewRefusals returns Refusals of a cluster that is not known yet.
func NewRefusals() *Refusals { return &Refusals{asks: map[string]*rememberedAsk{}} }

// pause keeps work to a twentieth of the time.
type pause struct{ until time.Time }

func (p *pause) over(now time.Time) bool { return !now.Before(p.until) }

func (p *pause) did(began time.Time) {
	now := time.Now()
	p.until = now.Add(20 * now.Sub(began))
}

// SetDRA notes what a DRA driver offers from now on; Berth's scheduler asks.
func (r *Refusals) SetDRA(d devices.DRA) {
	d.Berth = true
	if r.dra = d; r.cluster != nil {
		r.cluster.SetDRA(d)
	}
	clear(r.asks)
}

// Judge says what keeps a pod off the nodes as they are now, or were some moments ago
// where the cluster is so large that asking it again takes long. ties are the volumes of the
// pod. The verdict must not be changed; nil is that the nodes cannot be counted.
func (r *Refusals) Judge(pod *v1.Pod, ties []VolumeTopology, nodes Nodes) *reasons.Verdict {
	now := time.Now()
	if now.Sub(r.swept) >= sweepEvery {
		if !r.follow(nodes, now) {
			return nil
		}
		r.swept = now
	}
	var text strings.Builder
	text.WriteString(askKey(pod, len(r.cluster.antis) > 0))
	for i := range ties {
		text.WriteString(" " + ties[i].Claim + "=" + ties[i].Volume)
	}
	key := text.String()
	a := r.asks[key]
	if a == nil {
		a = r.newAsk(pod, ties, now)
		r.asks[key] = a
	}
	if a.used = now; a.changes != r.changes {
		r.bring(a, now)
	}
	return a.verdict
}

// newAsk asks every node, and forgets the ask used longest ago if there are many.
func (r *Refusals) newAsk(pod *v1.Pod, ties []VolumeTopology, now time.Time) *rememberedAsk {
	if len(r.asks) >= mostAsks {
		oldest := ""
		for key, a := range r.asks {
			if oldest == "" || a.used.Before(r.asks[oldest].used) {
				oldest = key
			}
		}
		delete(r.asks, oldest)
	}
	ask := r.cluster.askOf(pod)
	ask.ties = ties
	a := &rememberedAsk{judgment: r.cluster.newJudgment(ask), changes: r.changes}
	a.verdict = a.judgment.verdict(r.cluster)
	a.whole.did(now)
	return a
}

// bring brings an ask up to date: it asks the nodes that have changed, and all if the pods
// of one node have a say in whether it fits on another.
func (r *Refusals) bring(a *rememberedAsk, now time.Time) {
	t, j := r.cluster, a.judgment
	alone := j.ask.near.alone()
	near := t.neighborsOf(j.ask.pod)
	if alone = alone && near.alone(); !alone && !a.whole.over(now) {
		return
	}
	j.ask.near = near
	for i := range t.all {
		if !alone || r.at[i] > a.changes {
			j.askNode(t, i)
		}
	}
	a.verdict, a.changes = j.verdict(t), r.changes
	if !alone {
		a.whole.did(now)
	}
}

// follow reads the nodes that have changed. It reports false if nothing is known.
func (r *Refusals) follow(nodes Nodes, now time.Time) bool {
	if r.cluster == nil || len(r.seen) != nodes.Len() {
		return r.again(nodes, now)
	}
	changed := false
	for i := range r.seen {
		s := &r.seen[i]
		n, generation := nodes.Node(i)
		if n.Name != s.name {
			return r.again(nodes, now)
		}
		if generation == s.generation {
			continue
		}
		if !changed {
			r.changes++
			changed = true
		}
		if r.at[s.at] = r.changes; !r.cluster.refresh(s.at, n, nodes.Pods(i)) {
			return r.again(nodes, now)
		}
		s.generation = generation
	}
	return true
}

// again reads the whole cluster.
func (r *Refusals) again(nodes Nodes, now time.Time) bool {
	if !r.read.over(now) {
		return r.cluster != nil
	}
	list, pods := make([]*v1.Node, nodes.Len()), []*v1.Pod{}
	r.seen = make([]seenNode, nodes.Len())
	for i := range list {
		n, generation := nodes.Node(i)
		list[i], r.seen[i] = n, seenNode{name: n.Name, generation: generation}
		pods = append(pods, nodes.Pods(i)...)
	}
	t, err := NewCluster(list, pods)
	r.read.did(now)
	if err != nil {
		r.cluster = nil
		return false
	}
	t.byDefault = r.byDefault
	t.SetPrivate() // for all who may read the pod
	t.SetDRA(r.dra)
	r.cluster, r.at = t, make([]int64, len(list))
	for i := range r.seen {
		r.seen[i].at, _ = slices.BinarySearchFunc(t.all, r.seen[i].name, func(n *v1.Node, name string) int { return cmp.Compare(n.Name, name) })
	}
	r.changes++
	clear(r.asks)
	return true
}
