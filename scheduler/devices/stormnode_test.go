package devices_test

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/devices"
)

// table is what the kubelet of one node has given out, as simply as can be: it
// knows nothing of ledgers, and hears of pods late but in order.
type table struct {
	storm *storm
	name  string
	at    int // of storm.podLog
	given map[types.UID][]given
}

func newTable(s *storm, name string) *table {
	return &table{storm: s, name: name, given: map[types.UID][]given{}}
}

func (t *table) release(uid types.UID) { delete(t.given, uid) }

// kubelet lets a node hear of its pods: it gives those that have come their
// devices, and ends those that are to be deleted.
func (s *storm) kubelet(name string) {
	t := s.tables[name]
	if s.nodes[name] == nil {
		return // it is not there; when it returns it hears of all
	}
	for ; t.at < len(s.podLog); t.at++ {
		e := s.podLog[t.at]
		if e.old != nil && e.old.Spec.NodeName == name && (e.now == nil || e.now.UID != e.old.UID) {
			t.release(e.old.UID) // removed by force
		}
		if e.now == nil || e.now.Spec.NodeName != name {
			continue
		}
		p := s.pods[e.now.Name]
		if p == nil || p.UID != e.now.UID || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue // it hears of that later, and has nothing to do now
		}
		if p.DeletionTimestamp != nil {
			t.release(p.UID)
			s.write(p.Name, nil)
			continue
		}
		if p.Status.Phase == v1.PodPending {
			t.admit(p)
		}
	}
}

// admit gives a pod what was committed for it. There is no reason to refuse one
// but that the GPU has failed since, or that nothing was committed.
func (t *table) admit(p *v1.Pod) {
	s := t.storm
	list := s.holds(p)
	if len(list) == 0 {
		s.setPhase(p, v1.PodFailed)
		return
	}
	uuids := s.uuids(t.name)
	for _, d := range list {
		u := s.committed[d.UUID]
		if !slices.Contains(uuids, d.UUID) {
			s.t.Fatalf("step %d: pod %s is bound to node %s with GPU %s, which is elsewhere", s.at, p.Name, t.name, d.UUID)
		}
		if !u.healthy {
			s.unlucky++
			s.setPhase(p, v1.PodFailed)
			return
		}
		bytes, milli := d.MemoryBytes, d.MilliGPU
		for _, others := range t.given {
			for _, o := range others {
				if o.UUID == d.UUID {
					bytes += o.MemoryBytes
					milli += o.MilliGPU
				}
			}
		}
		if bytes > u.size || milli > 1000 {
			s.t.Fatalf("step %d: node %s has given out %d bytes of %d and %d milli-GPUs of %s with pod %s", s.at, t.name, bytes, u.size, milli, d.UUID, p.Name)
		}
	}
	t.given[p.UID] = list
	p = p.DeepCopy()
	p.Status.Phase = v1.PodRunning
	name := v1.ResourceName(api.ResourceGPUMemory)
	if _, whole := p.Spec.Containers[0].Resources.Limits[api.ResourceGPU]; whole {
		name = api.ResourceGPU
	}
	status := v1.ResourceStatus{Name: name}
	for _, d := range list {
		status.Resources = append(status.Resources, v1.ResourceHealth{ResourceID: v1.ResourceID(d.UUID), Health: v1.ResourceHealthStatusHealthy})
	}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", AllocatedResourcesStatus: []v1.ResourceStatus{status}}}
	s.write(p.Name, p)
}

// uuids lists the GPUs of a node.
func (s *storm) uuids(node string) []string {
	list, err := devices.Inventory(s.all[node])
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, g := range list {
		out = append(out, g.UUID)
	}
	return out
}

// calm ends the faults, lets everybody hear of everything until nothing changes,
// and then fails the test where a pod waits that some GPU has room for.
func (s *storm) calm() {
	s.quiet = true
	for len(s.late) > 0 {
		s.arrive()
	}
	for s.leads.finish() {
	}
	for i := range s.size.nodes {
		s.heal(nodeName(i), 0, true)
	}
	for before := -1; before != len(s.podLog); {
		before = len(s.podLog)
		for i := range s.size.nodes {
			s.kubelet(nodeName(i))
		}
		s.leads.catchUp()
		s.leads.queue, s.leads.waiting = append(s.leads.queue, s.leads.waiting...), nil
		for s.leads.schedule() {
			for s.leads.finish() {
			}
		}
	}
	most := map[bool]int64{} // of a GPU that is free as a whole, and of any
	for _, u := range s.committed {
		if u.milli == 0 {
			most[true] = max(most[true], u.size)
		}
		most[false] = max(most[false], u.size-u.bytes)
	}
	for _, p := range s.pods {
		if p.Spec.NodeName != "" {
			continue
		}
		limits := p.Spec.Containers[0].Resources.Limits
		gib := limits[api.ResourceGPUMemory]
		_, whole := limits[api.ResourceGPU]
		if whole && most[true] > 0 || !whole && gib.Value()<<30 <= most[false] {
			s.t.Fatalf("pod %s, which asks for %v, waits, and a GPU has %d bytes free (one that nobody uses: %d)", p.Name, limits, most[false], most[true])
		}
	}
}
