package devices_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/test/soak"
)

// size is how large a storm is. There is room for nodes*stormGPUs*2 shares or so
// at a time: most of the pods wait until others have ended.
type size struct{ pods, nodes, steps int }

const stormGPUs = 8 // of a node

// TestStorm makes thousands of pods at once, in a soak 10,000, that ask for shares
// of GPUs and some for whole ones, and takes random steps while they are placed:
// schedulers are killed and leadership moves, nodes vanish and return, GPUs turn unhealthy,
// pods end and are deleted while their binding is on its way, others bind pods
// too, bindings are refused, lost and late, and watches lag and drop. After
// every write the devices in the API and in the node's own table fit the GPUs.
// When the faults are over, no pod waits that any GPU has room for.
func TestStorm(t *testing.T) {
	sizes := []size{soak.Pick(size{pods: 2_500, nodes: 10, steps: 15_000}, size{pods: 10_000, nodes: 40, steps: 60_000})}
	for range soak.Pick(3, 10) {
		sizes = append(sizes, size{pods: 1_500, nodes: 5, steps: 20_000})
	}
	for seed, size := range sizes {
		t.Run(fmt.Sprintf("%d pods, seed %d", size.pods, seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storms(t, uint64(seed), size) }) // time is part of the seed
		})
	}
}

func storms(t *testing.T, seed uint64, size size) {
	s := newStorm(t, seed, size)
	for range size.pods {
		s.create()
	}
	for s.at = range size.steps {
		s.step()
		if s.chance.IntN(8) == 0 {
			time.Sleep(time.Duration(s.chance.IntN(20)) * time.Millisecond)
		}
	}
	s.calm()
	s.recount()
	if s.bound < min(size.pods/4, 40*size.nodes) {
		t.Errorf("%d pods were bound: too few to show anything", s.bound)
	}
	t.Logf("%d bindings arrived, %d were refused by a node for a failed GPU; %d takeovers, %d relists", s.bound, s.unlucky, s.takeovers, s.relists)
}

// storm is an API server, its nodes, and two schedulers of which one leads.
type storm struct {
	t      *testing.T
	size   size
	chance *rand.Rand
	at     int                 // step
	pods   map[string]*v1.Pod  // by name: the truth
	names  []string            // of all pods, some of which are gone
	nodes  map[string]*v1.Node // by name; one that has vanished is not in it
	all    map[string]*v1.Node // as they were before any fault
	tables map[string]*table   // the nodes' own
	podLog []podEvent          // what a watch of pods shows, in order
	nodLog []nodeEvent

	leads, stands *member
	committed     map[string]*used // by UUID, in the API
	late          []*v1.Binding    // sent by the leader, unanswered and still on their way
	quiet         bool             // the network and the webhooks are well

	made, bound, unlucky, takeovers, relists int
}

type podEvent struct{ old, now *v1.Pod } // now is nil for one that is gone

type nodeEvent struct {
	name string
	now  *v1.Node // nil for one that has vanished
}

// used is what pods have of one GPU together.
type used struct {
	size, bytes, milli int64
	healthy            bool
}

func newStorm(t *testing.T, seed uint64, size size) *storm {
	s := &storm{
		t: t, size: size, chance: rand.New(rand.NewPCG(seed, 2)), pods: map[string]*v1.Pod{}, nodes: map[string]*v1.Node{}, all: map[string]*v1.Node{},
		tables: map[string]*table{}, committed: map[string]*used{},
	}
	for i := range size.nodes {
		n := t4Node(t, fmt.Sprint("n", i), stormGPUs, gpu.Sharing{})
		s.all[n.Name] = n
		list, err := devices.Inventory(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range list {
			s.committed[g.UUID] = &used{size: g.MemoryBytes, healthy: true}
		}
		s.tables[n.Name] = newTable(s, n.Name)
		s.writeNode(n.Name, n)
	}
	s.leads, s.stands = newMember(s), newMember(s)
	return s
}

func (s *storm) step() {
	switch n := s.chance.IntN(1000); {
	case n < 290:
		s.leads.schedule()
	case n < 530:
		s.leads.finish()
	case n < 740:
		s.leads.hear(1 + s.chance.IntN(20))
		s.stands.hear(s.chance.IntN(25))
	case n < 860:
		s.kubelet(s.node())
	case n < 980:
		s.end()
	case n < 984:
		s.leads.drop()
	case n < 987:
		s.stands.drop()
	case n < 990:
		s.sicken()
	case n < 992:
		s.vanish()
	case n < 995:
		s.arrive()
	case n < 998:
		s.bindForeign()
	default:
		s.takeOver(s.chance.IntN(2) == 0)
	}
}

// node picks the name of a node.
func (s *storm) node() string { return fmt.Sprint("n", s.chance.IntN(s.size.nodes)) }

// pod picks a pod that passes, or nil.
func (s *storm) pod(pass func(*v1.Pod) bool) *v1.Pod {
	for range 20 {
		if p := s.pods[s.names[s.chance.IntN(len(s.names))]]; p != nil && pass(p) {
			return p
		}
	}
	return nil
}

// create makes a pod, at times with the name of one that is gone.
func (s *storm) create() {
	s.made++
	name := fmt.Sprint("p", s.made)
	if len(s.names) > 0 && s.chance.IntN(4) == 0 {
		if old := s.names[s.chance.IntN(len(s.names))]; s.pods[old] == nil {
			name = old
		}
	}
	want := v1.ResourceList{api.ResourceGPUMemory: *resource.NewQuantity([]int64{3, 5, 7, 9}[s.chance.IntN(4)], resource.DecimalSI)}
	if s.chance.IntN(20) == 0 {
		want = v1.ResourceList{api.ResourceGPU: *resource.NewQuantity(1, resource.DecimalSI)}
	}
	s.names = append(s.names, name)
	s.write(name, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "d", UID: types.UID(fmt.Sprint("uid-", s.made)),
			CreationTimestamp: metav1.NewTime(time.Now().AddDate(s.chance.IntN(3)-1, 0, 0)),
		},
		Spec:   v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: want, Requests: want}}}},
		Status: v1.PodStatus{Phase: v1.PodPending},
	})
}

// end ends a pod in one of the ways there are, or makes another.
func (s *storm) end() {
	switch s.chance.IntN(10) {
	case 0: // deleted gracefully: it holds its devices until its node has ended it
		if p := s.pod(func(p *v1.Pod) bool { return p.Spec.NodeName != "" && p.DeletionTimestamp == nil }); p != nil {
			p = p.DeepCopy()
			p.DeletionTimestamp = &metav1.Time{}
			s.write(p.Name, p)
		}
	case 1: // deleted while it waits, perhaps with a binding on its way
		if p := s.pod(func(p *v1.Pod) bool { return p.Spec.NodeName == "" }); p != nil {
			s.write(p.Name, nil)
		}
	case 2: // it is removed by force, as of a node that has vanished
		if p := s.pod(func(p *v1.Pod) bool { return p.Spec.NodeName != "" }); p != nil {
			s.write(p.Name, nil)
		}
	case 3:
		s.create()
	default: // its containers end
		if p := s.pod(func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning }); p != nil && s.nodes[p.Spec.NodeName] != nil {
			s.tables[p.Spec.NodeName].release(p.UID)
			s.setPhase(p, v1.PodSucceeded)
		}
	}
}

func (s *storm) setPhase(p *v1.Pod, phase v1.PodPhase) {
	p = p.DeepCopy()
	p.Status.Phase = phase
	s.write(p.Name, p)
}

// sicken makes a GPU unhealthy, or all of a node's healthy again.
func (s *storm) sicken() {
	name := s.node()
	if s.nodes[name] == nil {
		return
	}
	s.heal(name, s.chance.IntN(stormGPUs), s.chance.IntN(2) == 0)
}

// heal writes which GPUs of a node are healthy: all, or all but sick.
func (s *storm) heal(name string, sick int, healthy bool) {
	n := s.all[name].DeepCopy()
	list, err := devices.Inventory(n)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range list {
		list[i].Healthy = healthy || i != sick
		s.committed[list[i].UUID].healthy = list[i].Healthy
	}
	raw, err := json.Marshal(list)
	if err != nil {
		s.t.Fatal(err)
	}
	n.Annotations[api.AnnotationInventory] = string(raw)
	s.writeNode(name, n)
}

// vanish removes a node, or brings it back. Its pods stay until they are removed
// by force.
func (s *storm) vanish() {
	if name := s.node(); s.nodes[name] != nil {
		s.writeNode(name, nil)
	} else {
		s.heal(name, 0, true)
	}
}

// bindForeign binds a pod as somebody who knows nothing of devices: its node
// refuses it, and what Berth has sent for it comes too late.
func (s *storm) bindForeign() {
	if p := s.pod(func(p *v1.Pod) bool { return p.Spec.NodeName == "" && p.DeletionTimestamp == nil }); p != nil {
		_ = s.store(&v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID}, Target: v1.ObjectReference{Name: s.node()}})
	}
}

// takeOver ends the leader, killed or stopped, and the other one leads. A leader
// that is gone sends no more, and what it has sent has arrived or is lost by
// the time its lease runs out; until then the next one has heard all there is.
func (s *storm) takeOver(killed bool) {
	s.takeovers++
	for !killed && s.leads.finish() {
	}
	for len(s.late) > 0 {
		if s.chance.IntN(2) == 0 {
			s.arrive()
		} else {
			s.late = s.late[1:]
		}
	}
	s.leads = s.stands
	s.leads.catchUp()
	s.stands = newMember(s)
}
