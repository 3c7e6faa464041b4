package devices_test

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/scheduler/devices"
)

func nodeName(i int) string { return fmt.Sprint("n", i) }

// member is one of several schedulers: the plugin, and around it what
// kube-scheduler has of the cluster, as late as it hears of it. Its informer
// reads the log; its cache and the plugin's handler hear from the informer, each
// at its own pace.
type member struct {
	storm  *storm
	plugin *devices.Plugin
	handle *handle

	podsAt, nodesAt int                // how far the informers are in the logs
	known           map[string]*v1.Pod // the informer's store, by name
	notes           []podEvent         // what it has told its listeners
	cacheAt, toldAt int                // how far they have listened

	cache   map[types.UID]*v1.Pod // bound pods, assumed ones too
	sites   map[string]*info      // by node; one without a Node object has vanished
	clock   int64                 // generations
	queue   []string              // pods to be scheduled
	waiting []string              // pods that fit nowhere
	binding []flight              // binding cycles under way
}

// flight is a pod that was assumed, and is to be bound.
type flight struct {
	pod   *v1.Pod
	state fwk.CycleState
}

// newMember starts a scheduler: it hears of all there is before it does anything.
func newMember(s *storm) *member {
	m := &member{storm: s, handle: &handle{}, known: map[string]*v1.Pod{}, cache: map[types.UID]*v1.Pod{}, sites: map[string]*info{}}
	m.handle.client = client(s.bind, func(name string) *v1.Pod { return s.pods[name] })
	m.plugin = newPlugin(s.t, m.handle)
	m.drop()
	m.catchUp()
	return m
}

// ended says whether the informer of kube-scheduler leaves a pod out.
func ended(p *v1.Pod) bool {
	return p == nil || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// hear takes up to n steps of news each: of the watches, and of what the
// informer has told its listeners.
func (m *member) hear(n int) {
	s := m.storm
	for range n {
		if m.podsAt < len(s.podLog) {
			e := s.podLog[m.podsAt]
			m.podsAt++
			m.inform(nameOf(e), e.now)
		}
		if m.nodesAt < len(s.nodLog) {
			e := s.nodLog[m.nodesAt]
			m.nodesAt++
			m.setNode(e.name, e.now)
		}
	}
	for range n {
		if m.cacheAt < len(m.notes) && s.chance.IntN(4) > 0 {
			m.cacheHears(m.notes[m.cacheAt])
			m.cacheAt++
		}
		if m.toldAt < len(m.notes) && s.chance.IntN(4) > 0 {
			m.pluginHears(m.notes[m.toldAt])
			m.toldAt++
		}
	}
}

// catchUp hears of all there is.
func (m *member) catchUp() {
	m.hear(max(len(m.storm.podLog)-m.podsAt, len(m.storm.nodLog)-m.nodesAt))
	for ; m.cacheAt < len(m.notes); m.cacheAt++ {
		m.cacheHears(m.notes[m.cacheAt])
	}
	for ; m.toldAt < len(m.notes); m.toldAt++ {
		m.pluginHears(m.notes[m.toldAt])
	}
}

// inform is the informer: pods that have ended are gone for it.
func (m *member) inform(name string, now *v1.Pod) {
	old := m.known[name]
	if ended(now) {
		now = nil
	}
	if old == now {
		return
	}
	if m.known[name] = now; now == nil {
		delete(m.known, name)
	}
	m.notes = append(m.notes, podEvent{old, now})
}

func nameOf(e podEvent) string {
	if e.now != nil {
		return e.now.Name
	}
	return e.old.Name
}

// drop breaks the watches: what was not heard is skipped, and the difference
// between then and now is told instead.
func (m *member) drop() {
	s := m.storm
	s.relists++
	told := map[string]bool{}
	for _, e := range s.podLog[m.podsAt:] {
		if name := nameOf(e); !told[name] {
			told[name] = true
			m.inform(name, s.pods[name])
		}
	}
	for _, e := range s.nodLog[m.nodesAt:] {
		m.setNode(e.name, s.nodes[e.name])
	}
	m.podsAt, m.nodesAt = len(s.podLog), len(s.nodLog)
}

// pluginHears calls the plugin's own handler.
func (m *member) pluginHears(e podEvent) {
	switch h := m.handle.handler; {
	case e.now == nil && m.storm.chance.IntN(3) == 0:
		h.OnDelete(cache.DeletedFinalStateUnknown{Key: e.old.Namespace + "/" + e.old.Name, Obj: e.old})
	case e.now == nil:
		h.OnDelete(e.old)
	case e.old == nil:
		h.OnAdd(e.now, false)
	default:
		h.OnUpdate(e.old, e.now)
	}
}

// cacheHears changes the scheduler's cache and queue.
func (m *member) cacheHears(e podEvent) {
	if e.old != nil && (e.now == nil || e.now.UID != e.old.UID) && e.old.Spec.NodeName != "" {
		m.setCache(e.old.UID, nil)
		m.wake()
	}
	switch {
	case e.now == nil:
	case e.now.Spec.NodeName != "":
		m.setCache(e.now.UID, e.now)
	case e.old == nil || e.old.UID != e.now.UID:
		m.queue = append(m.queue, e.now.Name)
	}
}

// wake queues some of those that wait.
func (m *member) wake() {
	n := min(len(m.waiting), 30)
	m.queue = append(m.queue, m.waiting[:n]...)
	m.waiting = m.waiting[n:]
}

// setNode puts a Node object into the snapshot, or takes it out of it.
func (m *member) setNode(name string, n *v1.Node) {
	at := m.site(name)
	m.clock++
	at.node, at.generation = n, m.clock
	m.list()
	m.wake()
}

func (m *member) site(name string) *info {
	at := m.sites[name]
	if at == nil {
		at = &info{}
		m.sites[name] = at
	}
	return at
}

// list lists the nodes that have an object.
func (m *member) list() {
	m.handle.nodes = m.handle.nodes[:0]
	for i := range m.storm.size.nodes {
		if at := m.sites[nodeName(i)]; at != nil && at.node != nil {
			m.handle.nodes = append(m.handle.nodes, at)
		}
	}
}

// setCache puts a bound pod into the cache, or takes it out (nil).
func (m *member) setCache(uid types.UID, p *v1.Pod) {
	if had := m.cache[uid]; had != nil {
		at := m.site(had.Spec.NodeName)
		m.clock++
		at.pods = slices.DeleteFunc(slices.Clone(at.pods), func(o *v1.Pod) bool { return o == had })
		at.generation = m.clock
		delete(m.cache, uid)
	}
	if p != nil {
		at := m.site(p.Spec.NodeName)
		m.clock++
		at.pods = append(slices.Clone(at.pods), p)
		at.generation = m.clock
		m.cache[uid] = p
	}
}

// schedule is one scheduling cycle. It says whether there was a pod to schedule.
func (m *member) schedule() bool {
	for len(m.queue) > 0 {
		name := m.queue[0]
		m.queue = m.queue[1:]
		pod := m.known[name]
		if pod == nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || m.cache[pod.UID] != nil {
			continue
		}
		pod = pod.DeepCopy()
		st := &state{data: map[fwk.StateKey]fwk.StateData{}}
		node := m.place(st, pod)
		if node == "" {
			m.waiting = append(m.waiting, name)
			return true
		}
		pod.Spec.NodeName = node
		m.setCache(pod.UID, pod)
		m.binding = append(m.binding, flight{pod, st})
		return true
	}
	return false
}

// place goes through the extension points as the framework does, and gives the
// node on which devices are reserved, or none.
func (m *member) place(st *state, pod *v1.Pod) string {
	ctx, t := m.storm.t.Context(), m.storm.t
	var nodes []fwk.NodeInfo
	for _, n := range m.handle.nodes {
		nodes = append(nodes, n)
	}
	only, status := m.plugin.PreFilter(ctx, st, pod, nodes)
	switch {
	case status.IsRejected():
		return ""
	case !status.IsSuccess():
		t.Fatalf("PreFilter: %v", status)
	}
	var fit []fwk.NodeInfo
	for i := range nodes {
		n := nodes[(i+m.storm.at)%len(nodes)]
		if only.AllNodes() || only.NodeNames.Has(n.Node().Name) {
			if m.plugin.Filter(ctx, st, pod, n).IsSuccess() {
				fit = append(fit, n)
			}
		}
		if len(fit) == 4 {
			break
		}
	}
	if len(fit) == 0 {
		return ""
	}
	best, most := fit[0], int64(-1)
	if len(fit) > 1 && m.plugin.PreScore(ctx, st, pod, fit).IsSuccess() {
		for _, n := range fit {
			score, status := m.plugin.Score(ctx, st, pod, n)
			if !status.IsSuccess() {
				t.Fatalf("Score: %v", status)
			}
			if score > most {
				best, most = n, score
			}
		}
	}
	name := best.Node().Name
	if status := m.plugin.Reserve(ctx, st, pod, name); !status.IsSuccess() {
		t.Fatalf("step %d: Reserve of pod %s on node %s after Filter said yes: %v", m.storm.at, pod.Name, name, status)
	}
	return name
}

// finish is the end of a binding cycle. It says whether there was one.
func (m *member) finish() bool {
	if len(m.binding) == 0 {
		return false
	}
	i := m.storm.chance.IntN(min(8, len(m.binding)))
	f := m.binding[i]
	m.binding = slices.Delete(m.binding, i, i+1)
	ctx, name := m.storm.t.Context(), f.pod.Name
	if m.plugin.Bind(ctx, f.state, f.pod, f.pod.Spec.NodeName).IsSuccess() {
		return true
	}
	m.plugin.Unreserve(ctx, f.state, f.pod, f.pod.Spec.NodeName)
	if m.cache[f.pod.UID] == f.pod {
		m.setCache(f.pod.UID, nil) // the scheduler's cache forgets it
	}
	if p := m.known[name]; p != nil && p.UID == f.pod.UID && p.Spec.NodeName == "" {
		m.queue = append(m.queue, name)
	}
	m.wake()
	return true
}
