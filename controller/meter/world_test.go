package meter

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/record"
)

// aLife is what happens to a pod, in minutes.
type aLife struct {
	name, node       string
	mig              bool // it asks for a MIG device, else for a GPU
	bound, end, gone int
	says             bool // it says when it ended, and is there for a while; else it is deleted at its end
}

// aMachine is what happens to a node, in minutes. Several have a name, one after the other.
type aMachine struct {
	name, uid          string
	gpus               int
	created, cut, gone int // cut is when its GPUs are cut by MIG; 0 is never
	ahead              int // of its clock
}

// world is a history of nodes and pods: nodes are made again under their names and others, and are cut by MIG.
type world struct {
	pods     []aLife
	machines []aMachine
}

// newWorld makes a history of so many minutes.
func newWorld(seed uint64, minutes int) *world {
	r, w := rand.New(rand.NewPCG(seed, 60)), &world{}
	for slot := range 3 {
		name, gpus, made := fmt.Sprint("node-", slot), 1+r.IntN(4), 0
		free := make([]int, 7*4) // from when on each place of the node is
		for at := 0; at < minutes; made++ {
			m := aMachine{name: name, uid: fmt.Sprint(slot, "-", made), gpus: gpus, created: at, gone: at + 60 + r.IntN(200), ahead: []int{0, 60, 0}[slot]}
			if r.IntN(3) == 0 {
				m.cut = at + 30 + r.IntN(20)
			}
			at = m.gone
			stays := r.IntN(2) == 0 // it is made again at once, and its pods go on
			if !stays {
				at += r.IntN(9)
				name, gpus = fmt.Sprint("node-", slot, "-", made+1), 1+r.IntN(4)
			}
			w.machines = append(w.machines, m)
			w.fill(r, &m, free, stays && m.cut == 0)
			if !stays {
				clear(free)
			}
		}
	}
	return w
}

// fill has pods come and go on a node. One at each place may go on when the node is made again.
func (w *world) fill(r *rand.Rand, m *aMachine, free []int, over bool) {
	life := func(place, until int, mig, last bool) {
		for from := max(free[place], m.created); ; {
			p := aLife{name: fmt.Sprint("p", len(w.pods)), node: m.name, mig: mig, bound: from + 1 + r.IntN(9), says: r.IntN(2) == 0}
			p.end = p.bound + 1 + r.IntN(30)
			p.gone = p.end
			if p.says {
				p.gone += 1 + r.IntN(5)
			}
			if p.bound >= until || p.gone > until && !last {
				return
			}
			w.pods = append(w.pods, p)
			free[place], from = p.gone, p.gone
			if p.gone > until {
				return
			}
		}
	}
	whole := m.gone
	if m.cut > 0 {
		whole = m.cut
	}
	for place := range m.gpus {
		life(place, whole, false, over)
	}
	if m.cut > 0 {
		for place := range 3 * m.gpus {
			free[place] = max(free[place], m.cut)
			life(place, m.gone, true, false)
		}
	}
}

// object is the node at a minute.
func (m *aMachine) object(minute int) *v1.Node {
	n := kubetest.Inventory(m.name, kubetest.A100s(m.name, m.gpus), "nvidia.com/gpu", m.gpus)
	if m.cut > 0 && minute >= m.cut {
		n = kubetest.Inventory(m.name, kubetest.Cut(m.name, kubetest.A100s(m.name, m.gpus)), "nvidia.com/mig-1g.5gb", 7*m.gpus)
	}
	n.UID, n.CreationTimestamp = types.UID(m.uid), metav1.NewTime(at(m.created))
	n.Annotations[api.AnnotationPrice] = "7.000001"
	return beating(n, minute-minute%5, m.ahead)
}

// object is the pod at a minute.
func (l *aLife) object(minute, ahead int) *v1.Pod {
	resource := "nvidia.com/gpu"
	if l.mig {
		resource = "nvidia.com/mig-1g.5gb"
	}
	p := kubetest.Pod(l.name, l.node, resource, 1)
	p.Namespace, p.UID = "vision", types.UID("uid-"+l.name)
	p.Status.Conditions = aPod(l.name, l.node, 1, l.bound).Status.Conditions
	if l.says && minute >= l.end {
		return finished(p, l.end+ahead)
	}
	return p
}

// aheadOf is by how much the clock of a node is off at a minute.
func (w *world) aheadOf(node string, minute int) int {
	if m := w.machineOf(node, minute); m != nil {
		return m.ahead
	}
	return 0
}

// show has a meter that starts see all that is there at a minute, and what node agents have recorded of pods that are gone, if they keep records.
func (w *world) show(r *rig, minute int, records bool) {
	r.clock = at(minute)
	for i := range w.machines {
		if m := &w.machines[i]; m.created <= minute && minute < m.gone {
			r.node(m.object(minute))
		}
	}
	for i := range w.pods {
		if p := &w.pods[i]; p.bound <= minute && minute < p.gone {
			r.pod(p.object(minute, w.aheadOf(p.node, minute)))
		}
	}
	for i := range w.pods {
		if p := &w.pods[i]; records && p.bound <= minute && p.gone <= minute {
			ahead := w.aheadOf(p.node, p.gone-1)
			r.recorded(p.node, record.Gone{At: at(p.gone + ahead), Pod: record.Slim(p.object(p.gone, ahead))}, usage.Off(at(minute+w.aheadOf(p.node, minute)), at(minute)))
		}
	}
	r.missed()
}

// machineOf returns the machine that has the name of a node at a minute, or nil.
func (w *world) machineOf(node string, minute int) *aMachine {
	for i := range w.machines {
		if m := &w.machines[i]; m.name == node && m.created <= minute && minute < m.gone {
			return m
		}
	}
	return nil
}

// step has a meter see what happens in a minute: first what ends.
func (w *world) step(r *rig, minute int) {
	r.clock = at(minute)
	for i := range w.pods {
		p := &w.pods[i]
		if p.says && p.end == minute {
			r.pod(p.object(minute, w.aheadOf(p.node, minute-1)))
		}
		if p.gone == minute {
			r.gone(p.object(minute, w.aheadOf(p.node, minute-1)))
		}
	}
	for i := range w.machines {
		m := &w.machines[i]
		switch {
		case m.created == minute, m.created < minute && minute < m.gone && (m.cut == minute || minute%5 == 0):
			r.node(m.object(minute))
		case m.gone == minute && !w.again(m):
			r.nodeGone(m.object(minute))
		}
	}
	for i := range w.pods {
		if p := &w.pods[i]; p.bound == minute {
			r.pod(p.object(minute, 0))
		}
	}
}

// again reports whether a node is made again under its name at once.
func (w *world) again(m *aMachine) bool {
	for i := range w.machines {
		if o := &w.machines[i]; o.name == m.name && o.created == m.gone {
			return true
		}
	}
	return false
}
