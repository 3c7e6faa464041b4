package meter

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/exporter"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
)

// The week of three teams: from Monday 0:00 UTC on.
var (
	monday  = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	weekEnd = monday.AddDate(0, 0, 7)
)

// on is a time of the week: a day after Monday, and a time of day in hours.
func on(day int, hours float64) time.Time {
	return monday.AddDate(0, 0, day).Add(time.Duration(hours * float64(time.Hour)).Truncate(time.Second))
}

// lifetime is a pod of the week: all that there is to know.
type lifetime struct {
	what                  string // the case that it is of
	team, user            string
	kind, owner, pod, uid string
	node, resource        string
	count                 int
	bound, started, ended time.Time // started is when its containers ran; all times are whole seconds
	busy                  int       // devices that work
	ratio                 float64   // their utilization
}

// aRate is what a node costs from a time on, in millionths of a dollar an hour.
type aRate struct {
	from   time.Time
	micros int64
}

// machine is a node of the week.
type machine struct {
	name, product string
	gpus, replica int // replicas of each GPU; 0 is not shared
	mig           int // MIG devices of each GPU; 0 is none
	rates         []aRate
	cordoned      time.Time // zero is never
}

const dollar = 1_000_000

// machines are the nodes.
var machines = []machine{
	{name: "a100-1", product: "NVIDIA A100-SXM4-40GB", gpus: 8, rates: []aRate{{monday, 24 * dollar}}},
	{name: "a100-2", product: "NVIDIA A100-SXM4-40GB", gpus: 4, rates: []aRate{{monday, 12 * dollar}, {on(3, 12), 20 * dollar}}},
	{name: "mig-1", product: "NVIDIA A100-SXM4-40GB", gpus: 2, mig: 7, rates: []aRate{{monday, 6 * dollar}}, cordoned: on(5, 0)},
	{name: "t4-1", product: "Tesla T4", gpus: 2, rates: []aRate{{monday, 1 * dollar}}},
	{name: "t4-shared-1", product: "Tesla T4", gpus: 4, replica: 4, rates: []aRate{{monday, 2 * dollar}}},
}

// The cases of the week, in the order of the table.
const (
	caseWhole   = "whole GPUs, one pod for five days"
	caseCheap   = "a T4 for three days"
	caseSlices  = "time slices of a T4"
	caseMIG     = "MIG devices"
	caseShort   = "pods of less than a minute, at any time"
	caseSame    = "pods of 20 s, at the same second of a minute"
	casePulls   = "pods that pull an image for 12 minutes"
	caseRestart = "a notebook that is stopped at noon"
	caseBefore  = "a pod before the price of its node rises"
	caseAfter   = "a pod after that"
)

var weekCases = []string{caseWhole, caseCheap, caseSlices, caseMIG, caseShort, caseSame, casePulls, caseRestart, caseBefore, caseAfter}

// theWeek is the history: the same each time.
func theWeek() (list []lifetime) {
	add := func(l lifetime) {
		l.resource, l.count, l.uid = cmp.Or(l.resource, api.ResourceGPU), cmp.Or(l.count, 1), fmt.Sprintf("uid-%d", len(list))
		if l.started.IsZero() {
			l.started = l.bound.Add(5 * time.Second)
		}
		l.pod = cmp.Or(l.pod, l.owner+fmt.Sprint("-", len(list)))
		list = append(list, l)
	}
	add(lifetime{what: caseWhole, team: "vision", user: "ann", kind: "Job", owner: "wide", node: "a100-1", count: 4, bound: on(0, 8.0025), ended: on(5, 20), busy: 1, ratio: 0.9})
	add(lifetime{what: caseCheap, team: "language", user: "eve", kind: "Job", owner: "small", node: "t4-1", bound: on(1, 6.5), ended: on(4, 6.5), busy: 1, ratio: 0.75})
	for range 4 {
		add(lifetime{what: caseSlices, team: "speech", user: "bob", kind: "Job", owner: "slices", node: "t4-shared-1", bound: on(1, 9), ended: on(1, 19), busy: 1, ratio: 0.6})
	}
	for range 3 {
		add(lifetime{what: caseMIG, team: "language", user: "eve", kind: "Job", owner: "parts", node: "mig-1", resource: "nvidia.com/mig-1g.5gb", bound: on(1, 9), ended: on(3, 9), busy: 1, ratio: 0.8})
	}
	chance := rand.New(rand.NewPCG(11, 2))
	for i := range 120 {
		from := on(2, 9).Add(time.Duration(2*i)*time.Minute + time.Duration(chance.IntN(60))*time.Second)
		length := time.Duration(25+chance.IntN(35)) * time.Second
		add(lifetime{what: caseShort, team: "speech", user: "bob", kind: "Job", owner: "tries", node: "a100-1", bound: from, started: from, ended: from.Add(length)})
		from = on(2, 13).Add(time.Duration(i)*time.Minute + 10*time.Second)
		add(lifetime{what: caseSame, team: "language", user: "fay", kind: "CronJob", owner: "each-minute", node: "a100-1", bound: from, started: from, ended: from.Add(20 * time.Second)})
	}
	for i := range 10 {
		from := on(3, 8+float64(i)/2)
		add(lifetime{what: casePulls, team: "vision", user: "cid", kind: "Job", owner: "pulls", node: "a100-1", bound: from, started: from.Add(12 * time.Minute), ended: from.Add(20 * time.Minute), busy: 1, ratio: 0.95})
	}
	for day := range 5 {
		for _, part := range [][2]float64{{8.5, 12}, {13.5, 18}} {
			add(lifetime{what: caseRestart, team: "speech", user: "dan", kind: "Notebook", owner: "nb", pod: "nb-0", node: "a100-1", bound: on(day, part[0]), ended: on(day, part[1]), ratio: 0.01})
		}
	}
	add(lifetime{what: caseBefore, team: "vision", user: "cid", kind: "Job", owner: "early", node: "a100-2", count: 4, bound: on(3, 0), ended: on(3, 12), busy: 4, ratio: 0.85})
	add(lifetime{what: caseAfter, team: "language", user: "fay", kind: "Job", owner: "late", node: "a100-2", count: 4, bound: on(3, 12), ended: on(4, 0), busy: 4, ratio: 0.85})
	return list
}

// object is a machine as a Node at a time.
func (m *machine) object(now time.Time) *v1.Node {
	var gpus []devices.InventoryGPU
	for i := range m.gpus {
		g := devices.InventoryGPU{Index: i, UUID: fmt.Sprintf("GPU-%s-%d", m.name, i), Product: m.product, MemoryBytes: 40 << 30, Healthy: true, Shares: m.replica}
		gpus = append(gpus, g)
	}
	n := kubetest.Inventory(m.name, gpus, api.ResourceGPU, m.gpus*max(1, m.replica))
	if m.mig > 0 {
		n = kubetest.Inventory(m.name, kubetest.Cut(m.name, gpus), "nvidia.com/mig-1g.5gb", m.gpus*m.mig)
	}
	n.UID, n.CreationTimestamp = types.UID("uid-"+m.name), metav1.NewTime(monday)
	micros := int64(0)
	for _, r := range m.rates {
		if !r.from.After(now) {
			micros = r.micros
		}
	}
	n.Annotations[api.AnnotationPrice] = fmt.Sprintf("%d.%06d", micros/dollar, micros%dollar)
	n.Spec.Unschedulable = !m.cordoned.IsZero() && !m.cordoned.After(now)
	return n
}

// object is a lifetime as a Pod that runs.
func (l *lifetime) object() *v1.Pod {
	p := kubetest.Controlled(kubetest.Pod(l.pod, l.node, l.resource, l.count), l.kind, l.owner)
	p.Namespace, p.UID, p.CreationTimestamp = l.team, types.UID(l.uid), metav1.NewTime(l.bound.Add(-30*time.Second))
	p.Annotations = map[string]string{api.AnnotationUser: l.user}
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(l.bound)}}
	return p
}

// done is a lifetime as a Pod that has ended.
func (l *lifetime) done() *v1.Pod {
	p := l.object()
	p.Status.Phase = v1.PodSucceeded
	p.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.NewTime(l.ended)}}}}
	return p
}

// readings are what the exporter of its node says of a lifetime: a value for each device.
func (l *lifetime) readings() (list []exporter.Reading) {
	for i := range l.count {
		uuid := fmt.Sprintf("GPU-%s-%s-%d", l.node, l.uid, i)
		if l.what == caseSlices {
			uuid = "GPU-" + l.node + "-0" // all of one GPU, of which the exporter has one value
		}
		r := exporter.Reading{UUID: uuid, Namespace: l.team, Pod: l.pod, UtilizationKnown: true, MemoryBytes: 3 << 30}
		if l.resource != api.ResourceGPU {
			r.Profile = "1g.5gb"
		}
		if i < l.busy || l.busy == 0 {
			r.Utilization = l.ratio
		}
		list = append(list, r)
	}
	return list
}

// moment is something that happens in the week.
type moment struct {
	at time.Time
	do func(*rig)
}

// playWeek has a meter see the week as it happens: nodes and pods when they change, and exporters every five minutes.
func playWeek(t *testing.T) *rig {
	lives := theWeek()
	var all []moment
	add := func(at time.Time, do func(*rig)) { all = append(all, moment{at, do}) }
	for i := range machines {
		m := &machines[i]
		times := []time.Time{monday}
		for _, r := range m.rates[1:] {
			times = append(times, r.from)
		}
		if !m.cordoned.IsZero() {
			times = append(times, m.cordoned)
		}
		for _, at := range times {
			add(at, func(r *rig) { r.node(m.object(at)) })
		}
	}
	for i := range lives {
		l := &lives[i]
		add(l.bound, func(r *rig) { r.pod(l.object()) })
		add(l.ended, func(r *rig) { r.pod(l.done()) })
		add(l.ended.Add(time.Hour), func(r *rig) { r.gone(l.done()) })
	}
	for at := monday; at.Before(weekEnd); at = at.Add(5 * time.Minute) {
		add(at, func(r *rig) {
			of := map[string][]exporter.Reading{}
			for i := range lives {
				if l := &lives[i]; !l.started.After(at) && l.ended.After(at) {
					of[l.node] = append(of[l.node], l.readings()...)
				}
			}
			for node, list := range of {
				r.read(node, at, list)
			}
			r.use.settle(at, &r.batch)
		})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })
	r := newRig(t)
	r.clock = monday
	r.began, r.alive = monday, monday
	var list []*v1alpha1.Queue
	for _, team := range []string{"vision", "speech", "language"} {
		list = append(list, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: team}, Spec: v1alpha1.QueueSpec{Namespaces: &v1alpha1.QueueNamespaces{Names: []string{team}}}})
	}
	r.members = queues.NewMembers(list)
	r.flush() // the book begins
	for _, m := range all {
		if m.at.After(weekEnd) {
			break
		}
		if !m.at.Truncate(time.Hour).Equal(r.clock.Truncate(time.Hour)) {
			r.flush()
		}
		r.clock = m.at
		m.do(r)
		r.settle()
	}
	r.clock = weekEnd
	r.flush()
	for closed := true; closed; {
		var err error
		if closed, err = r.book.CloseDay(t.Context(), r.clock); err != nil {
			t.Fatal(err)
		}
	}
	return r
}
