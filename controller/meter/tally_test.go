package meter

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/ledger"
	"berth.dev/berth/test/soak"
)

var epoch = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }

// endSeen is an end that the meter saw.
var endSeen = usage.End{Source: usage.Seen}

// rig is a meter of objects that a test shows it, with a book.
type rig struct {
	testing.TB
	*tally
	book  *ledger.Book
	clock time.Time
}

func newRig(t testing.TB) *rig { return rigOf(t, filepath.Join(t.TempDir(), "ledger.db")) }

// rigOf is a rig with the book of a file.
func rigOf(t testing.TB, path string) *rig {
	b, err := ledger.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	r := &rig{TB: t, book: b, clock: at(0)}
	r.start()
	return r
}

// start begins a meter on what the book has, as after a crash: what was not written is lost.
func (r *rig) start() {
	s, err := r.book.State(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	r.tally = newTally(s, func() time.Time { return r.clock })
	r.had = func(pod string) bool {
		ended, err := r.book.Ended(r.Context(), pod)
		if err != nil {
			r.Fatal(err)
		}
		return ended
	}
	list := []*v1alpha1.Queue{{ObjectMeta: metav1.ObjectMeta{Name: "red"}, Spec: v1alpha1.QueueSpec{Namespaces: &v1alpha1.QueueNamespaces{Names: []string{"vision"}}}}}
	r.members = queues.NewMembers(list)
}

func (r *rig) flush() {
	r.settle()
	if err := r.book.Write(r.Context(), &r.batch, r.clock); err != nil {
		r.Fatal(err)
	}
	r.batch = ledger.Batch{}
}

// rows is what is charged until now, added up.
func (r *rig) rows(by cost.By) []cost.Row {
	f, err := r.book.Facts(r.Context(), at(-10_000), r.clock)
	if err != nil {
		r.Fatal(err)
	}
	return cost.Sum(cost.Account(f, at(-10_000), r.clock), by)
}

func (r *rig) want(by cost.By, want string) {
	r.Helper()
	got := ""
	for i, row := range r.rows(by) {
		if i > 0 {
			got += ", "
		}
		name := map[cost.What]string{cost.Held: row.Name, cost.Idle: "idle", cost.Stranded: string(row.Reason)}[row.What]
		got += fmt.Sprintf("%s=%vh $%v", name, float64(row.PartMillis)/quota.Whole/3_600_000, float64(row.Micros)/1e6)
	}
	if got != want {
		r.Errorf("by %s is charged %s, want %s", by, got, want)
	}
}

// aNode is a node of so many GPUs that costs one dollar an hour for each.
func aNode(name string, gpus, created int) *v1.Node {
	n := kubetest.Foreign(name, kubetest.Product("NVIDIA-A100-SXM4-40GB", gpus, 40960), "nvidia.com/gpu", gpus)
	n.UID, n.CreationTimestamp = types.UID("uid-"+name), metav1.NewTime(at(created))
	n.Annotations = map[string]string{api.AnnotationPrice: fmt.Sprint(gpus)}
	return n
}

// aPod is a pod that was bound at a time.
func aPod(name, node string, gpus, bound int) *v1.Pod {
	p := kubetest.Pod(name, node, "nvidia.com/gpu", gpus)
	p.Namespace, p.UID = "vision", types.UID("uid-"+name)
	p.Annotations = map[string]string{api.AnnotationUser: "ann"}
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(bound))}}
	return p
}

// finished is a pod whose container has ended at a time.
func finished(p *v1.Pod, minute int) *v1.Pod {
	p = p.DeepCopy()
	p.Status.Phase = v1.PodSucceeded
	p.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.NewTime(at(minute))}}}}
	return p
}

// beating is a node that says at a minute that it is there, by a clock that is ahead by others.
func beating(n *v1.Node, minute, ahead int) *v1.Node {
	n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(at(minute + ahead))
	return n
}

// roomy is a node with so many CPUs and GiB of memory.
func roomy(n *v1.Node, cpu, memory int) *v1.Node {
	maps.Copy(n.Status.Allocatable, kubetest.Amounts("cpu", cpu, "memory", memory<<30))
	return n
}

// small is a pod without GPUs that takes so many CPUs and GiB of memory.
func small(name, node string, cpu, memory int) *v1.Pod {
	p := kubetest.Pod(name, node, "cpu", cpu, "memory", memory<<30)
	p.UID = types.UID("uid-" + name)
	return p
}

func TestTheLedgerIsWhatHasHappened(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(r *rig)
		want string
	}{
		{"a new meter begins when it is started, whatever nodes and pods say", func(r *rig) {
			r.node(aNode("n", 2, -600))
			r.pod(aPod("a", "n", 1, -60))
			r.flush()
			r.clock = at(60)
		}, "vision=1h $1, idle=1h $1"},
		{"a pod holds from its binding, which the meter sees a moment later", func(r *rig) {
			r.node(aNode("n", 1, 0))
			r.flush()
			r.clock = at(31)
			r.pod(aPod("a", "n", 1, 30))
			r.flush()
			r.clock = at(60)
		}, "vision=0.5h $0.5, idle=0.5h $0.5"},
		{"until its containers have ended, also where it is there for longer", func(r *rig) {
			r.node(aNode("n", 1, 0))
			r.pod(aPod("a", "n", 1, 0))
			r.flush()
			r.clock = at(40)
			r.pod(finished(aPod("a", "n", 1, 0), 30))
			r.flush()
			r.clock = at(60)
			r.gone(finished(aPod("a", "n", 1, 0), 30))
			r.flush()
		}, "vision=0.5h $0.5, idle=0.5h $0.5"},
		{"or until it is gone, where it does not say when it ended", func(r *rig) {
			r.node(aNode("n", 1, 0))
			r.pod(aPod("a", "n", 1, 0))
			r.flush()
			r.clock = at(30)
			p := aPod("a", "n", 1, 0)
			p.DeletionTimestamp = new(metav1.NewTime(at(20)))
			r.pod(p)
			r.gone(p)
			r.flush()
			r.clock = at(60)
		}, "vision=0.5h $0.5, idle=0.5h $0.5"},
		{"a pod that is seen before its node", func(r *rig) {
			r.pod(aPod("a", "n", 1, 0))
			r.node(aNode("n", 1, 0))
			r.flush()
			r.clock = at(60)
		}, "vision=1h $1"},
		{"a pod that came and went while there was no meter", func(r *rig) {
			r.node(aNode("n", 1, 0))
			r.flush()
			r.clock = at(60)
			r.start()
			r.node(aNode("n", 1, 0))
			r.pod(finished(aPod("a", "n", 1, 15), 45))
			r.missed()
			r.flush()
		}, "vision=0.5h $0.5, idle=0.5h $0.5"},
		{"a pod that has ended is not counted again by the next meter", func(r *rig) {
			r.node(aNode("n", 1, 0))
			r.pod(aPod("a", "n", 1, 0))
			r.flush()
			r.clock = at(30)
			r.pod(finished(aPod("a", "n", 1, 0), 30))
			r.flush()
			r.clock = at(60)
			r.start()
			r.node(aNode("n", 1, 0))
			r.pod(finished(aPod("a", "n", 1, 0), 30))
			r.missed()
			r.flush()
		}, "vision=0.5h $0.5, idle=0.5h $0.5"},
		{"a node that is gone costs nothing, whatever pods on it say", func(r *rig) {
			r.node(aNode("n", 1, 0))
			r.pod(aPod("a", "n", 1, 0))
			r.flush()
			r.clock = at(30)
			r.nodeGone(aNode("n", 1, 0))
			r.flush()
			r.clock = at(60)
		}, "vision=0.5h $0.5"},
		{"a node that is deleted and created again under the same name", func(r *rig) {
			r.node(aNode("n", 1, 0))
			r.flush()
			r.clock = at(30)
			again := aNode("n", 2, 30)
			again.UID = "other"
			r.node(again)
			r.flush()
			r.clock = at(60)
		}, "idle=1.5h $1.5"},
		{"a price that changes", func(r *rig) {
			n := aNode("n", 1, 0)
			r.node(n)
			r.flush()
			r.clock = at(30)
			n = n.DeepCopy()
			n.Annotations[api.AnnotationPrice] = "3"
			r.node(n)
			r.flush()
			r.clock = at(60)
		}, "idle=1h $2"},
		{"a cordoned node", func(r *rig) {
			n := aNode("n", 2, 0)
			r.node(n)
			r.pod(aPod("a", "n", 1, 0))
			r.flush()
			r.clock = at(30)
			n = n.DeepCopy()
			n.Spec.Unschedulable = true
			r.node(n)
			r.flush()
			r.clock = at(60)
		}, "vision=1h $1, idle=0.5h $0.5, cordoned=0.5h $0.5"},
		{"a pod that goes on while its node is made again under the same name", func(r *rig) {
			r.node(aNode("n", 1, 0))
			r.pod(aPod("a", "n", 1, 0))
			r.missed()
			r.flush()
			r.clock = at(30)
			again := aNode("n", 1, 30)
			again.UID = "other"
			r.node(again)
			r.flush()
			r.clock = at(60)
		}, "vision=1h $1"},
		{"the same while there is no meter, but for the time until then in which nothing is known", func(r *rig) {
			r.node(aNode("n", 1, 0))
			r.pod(aPod("a", "n", 1, 0))
			r.missed()
			r.flush()
			r.clock = at(30)
			r.start()
			again := aNode("n", 1, 15)
			again.UID = "other"
			r.node(again)
			r.pod(aPod("a", "n", 1, 0))
			r.missed()
			r.flush()
			r.clock = at(60)
		}, "vision=0.75h $0.75"},
		{"a pod that goes on after its node is renamed is charged until then", func(r *rig) {
			r.node(aNode("n", 1, 0))
			r.pod(aPod("a", "n", 1, 0))
			r.missed()
			r.flush()
			r.clock = at(30)
			r.nodeGone(aNode("n", 1, 0))
			r.node(aNode("new", 1, 30))
			r.flush()
			r.clock = at(60)
		}, "vision=0.5h $0.5, idle=0.5h $0.5"},
		{"a node that is cut by MIG while pods come and go", func(r *rig) {
			priced := func(n *v1.Node) *v1.Node {
				n.UID, n.CreationTimestamp, n.Annotations[api.AnnotationPrice] = "uid-n", metav1.NewTime(at(0)), "7"
				return n
			}
			r.node(priced(kubetest.Inventory("n", kubetest.A100s("n", 1), "nvidia.com/gpu", 1)))
			r.pod(aPod("a", "n", 1, 0))
			r.missed()
			r.flush()
			r.clock = at(30)
			r.pod(finished(aPod("a", "n", 1, 0), 30))
			r.node(priced(kubetest.Inventory("n", kubetest.Cut("n", kubetest.A100s("n", 1)), "nvidia.com/mig-1g.5gb", 7)))
			b := kubetest.Pod("b", "n", "nvidia.com/mig-1g.5gb", 2)
			b.Namespace, b.UID, b.Status.Conditions = "vision", "uid-b", aPod("b", "n", 1, 30).Status.Conditions
			r.pod(b)
			r.flush()
			r.clock = at(60)
		}, "vision=0.6428571428571428h $4.5, idle=0.35714285714285715h $2.5"}, // 1/2 and 1/7
		{"a node whose clock is an hour ahead", func(r *rig) {
			r.node(beating(aNode("n", 1, 0), 0, 60))
			r.pod(aPod("a", "n", 1, 0))
			r.missed()
			r.clock = at(5)
			r.node(beating(aNode("n", 1, 0), 5, 60))
			r.clock = at(40)
			r.pod(finished(aPod("a", "n", 1, 0), 30+60))
			r.flush()
			r.clock = at(60)
			r.start() // which does not know of the clock, and does not change what is written
			r.node(beating(aNode("n", 1, 0), 55, 60))
			r.pod(finished(aPod("a", "n", 1, 0), 30+60))
			r.missed()
			r.flush()
		}, "vision=0.5h $0.5, idle=0.5h $0.5"},
		{"a node whose clock is an hour behind", func(r *rig) {
			r.node(beating(aNode("n", 1, 0), 0, -60))
			r.pod(aPod("a", "n", 1, 0))
			r.missed()
			r.clock = at(5)
			r.node(beating(aNode("n", 1, 0), 5, -60))
			r.clock = at(40)
			r.pod(finished(aPod("a", "n", 1, 0), 30-60))
			r.flush()
			r.clock = at(60)
		}, "vision=0.5h $0.5, idle=0.5h $0.5"},
		{"one that is an hour behind and has not said what time it is", func(r *rig) {
			r.node(aNode("n", 1, 0))
			r.pod(aPod("a", "n", 1, 0))
			r.missed()
			r.clock = at(30)
			r.pod(finished(aPod("a", "n", 1, 0), 30-60))
			r.flush()
			r.clock = at(60)
		}, "vision=0.5h $0.5, idle=0.5h $0.5"},
		{"the clock of the meter is set back by an hour for ten minutes", func(r *rig) {
			r.node(aNode("n", 2, 0))
			r.pod(aPod("a", "n", 1, 0))
			r.missed()
			r.clock = at(30)
			r.flush()
			r.clock = at(40 - 60)
			r.gone(aPod("a", "n", 1, 0)) // at 40, and what is known is that the time is not before 30
			r.flush()
			r.clock = at(60)
			r.flush()
		}, "vision=0.5h $0.5, idle=1.5h $1.5"},
		{"the clock of the meter is found an hour back when it starts", func(r *rig) {
			r.clock = at(60)
			r.node(aNode("n", 1, 0))
			r.flush()
			r.clock = at(20)
			r.start()
			r.node(aNode("n", 1, 0))
			r.pod(aPod("a", "n", 1, 20))
			r.missed()
			r.flush()
			r.clock = at(90)
			r.flush()
		}, "vision=0.5h $0.5, idle=1h $1"},
		{"GPUs without CPU for a pod beside them are stranded", func(r *rig) {
			r.node(roomy(aNode("n", 2, 0), 4, 16))
			r.pod(aPod("a", "n", 1, 0))
			r.pod(small("web", "n", 3, 2))
			r.flush()
			r.clock = at(30)
			r.pod(small("more", "n", 1, 2))
			r.flush()
			r.clock = at(60)
			r.gone(small("more", "n", 1, 2))
			r.flush()
			r.clock = at(90)
		}, "vision=1.5h $1.5, idle=1h $1, no-cpu=0.5h $0.5"},
		{"and those without memory; a node that is full is not", func(r *rig) {
			r.node(roomy(aNode("n", 2, 0), 4, 16))
			r.pod(small("web", "n", 1, 16))
			r.flush()
			r.clock = at(30)
			r.pod(aPod("a", "n", 2, 30))
			r.flush()
			r.clock = at(60)
		}, "vision=1h $1, no-memory=1h $1"},
		{"pods without GPUs and pods without a node are none", func(r *rig) {
			r.node(aNode("n", 1, 0))
			r.pod(kubetest.Pod("web", "n"))
			r.pod(aPod("waits", "", 1, 0))
			r.flush()
			r.clock = at(60)
		}, "idle=1h $1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			c.play(r)
			r.want(cost.Namespace, c.want)
		})
	}
}

func TestWhoHoldsIsFrozenWhenItBegins(t *testing.T) {
	r := newRig(t)
	r.node(aNode("n", 1, 0))
	r.pod(aPod("a", "n", 1, 0))
	r.flush()
	changed := aPod("a", "n", 1, 0)
	changed.Annotations[api.AnnotationUser] = "bob"
	r.clock = at(30)
	r.pod(changed)
	r.flush()
	r.clock = at(60)
	r.want(cost.User, "ann=1h $1")
	r.want(cost.Queue, "red=1h $1")
}

// TestWhatIsMissedSaysByHowMuch has a pod end unseen: it is charged until a meter last was there, and the book has for
// how long it may have gone on.
func TestWhatIsMissedSaysByHowMuch(t *testing.T) {
	r := newRig(t)
	r.node(aNode("n", 1, 0))
	r.pod(aPod("a", "n", 1, 0))
	r.flush()
	r.clock = at(20)
	r.flush() // there, and nothing is new
	r.clock = at(60)
	r.start()
	r.node(aNode("n", 1, 0))
	r.missed()
	i := slices.IndexFunc(r.batch.Holds, func(h ledger.Holds) bool { return h.Key == "uid-a" })
	if i < 0 || !r.batch.Holds[i].To.Equal(at(20)) || r.batch.Holds[i].End != (usage.End{Source: usage.LastSeen, Late: 40 * time.Minute}) {
		t.Errorf("written is %+v, want an end at %v, up to 40 minutes late", r.batch.Holds, at(20))
	}
}

// TestAMeterThatIsKilledLosesNothing plays random lives of nodes and pods, kills the meter at random moments, also
// between two writes, and starts it again. The charges are those of the objects' history, as each pod says
// when it was bound and when it ended.
func TestAMeterThatIsKilledLosesNothing(t *testing.T) {
	for seed := range soak.Pick(uint64(6), 30) {
		c := rand.New(rand.NewPCG(seed, 25))
		r := newRig(t)
		nodes := []*v1.Node{aNode("n0", 8, 0), aNode("n1", 4, 0)}
		pods := map[string]*v1.Pod{}
		truth := map[string]usage.Hold{}
		show := func() {
			for _, n := range nodes {
				r.node(n)
			}
			for _, p := range pods {
				r.pod(p)
			}
		}
		show()
		r.flush()
		for step := 1; step < 240; step++ {
			r.clock = at(step)
			name := fmt.Sprint("p", c.IntN(25))
			p := pods[name]
			switch {
			case p == nil:
				p = aPod(name, nodes[c.IntN(2)].Name, 1, step)
				p.UID = types.UID(fmt.Sprint(name, "-", step))
				pods[name], truth[string(p.UID)] = p, usage.Hold{Pod: p.Spec.NodeName, Parts: quota.Whole, From: at(step)}
				r.pod(p)
			case p.Status.Phase != v1.PodSucceeded:
				pods[name] = finished(p, step)
				h := truth[string(p.UID)]
				h.To = at(step)
				truth[string(p.UID)] = h
				r.pod(pods[name])
			default:
				r.flush() // what it says is in the book before it is deleted
				delete(pods, name)
				r.gone(p)
			}
			switch c.IntN(6) {
			case 0:
				r.start() // killed: what it had not written is lost
				show()
				r.missed()
			case 1, 2:
				r.flush()
			}
		}
		r.clock = at(240)
		r.flush()
		plain := &cost.Facts{Pods: map[string]cost.Pod{}}
		for i, n := range nodes {
			f := cost.NodeFacts{UID: string(n.UID), Name: n.Name, Ups: []usage.Up{{Parts: []int64{8, 4}[i] * quota.Whole, From: at(0)}}, Prices: []cost.Price{{From: at(0), Micros: []int64{8, 4}[i] * 1_000_000, Currency: "USD", Source: "x"}}}
			for uid, h := range truth {
				if h.Pod == n.Name {
					f.Holds = append(f.Holds, usage.Hold{Pod: uid, Parts: h.Parts, From: h.From, To: h.To})
				}
			}
			plain.Nodes = append(plain.Nodes, f)
		}
		f, err := r.book.Facts(t.Context(), at(-1), r.clock)
		if err != nil {
			t.Fatal(err)
		}
		sums := func(f *cost.Facts) map[string]int64 {
			out := map[string]int64{}
			for e := range cost.Account(f, at(-1), r.clock) {
				out[e.Node.Name+"/"+e.Line.Pod+string(e.Line.Reason)] += e.Micros
			}
			return out
		}
		if got, want := sums(f), sums(plain); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d: charged is\n%v, want\n%v", seed, got, want)
		}
	}
}

// TestPriceBooks has prices of a book begin, while a meter is there and while none is.
func TestPriceBooks(t *testing.T) {
	rule := func(name string, from int, dollars int64) cost.Rule {
		return cost.Rule{Book: "lab", Name: name, From: at(from), Micros: dollars * 1_000_000, Currency: "USD"}
	}
	plain := func() *v1.Node {
		n := aNode("n", 1, 0)
		delete(n.Annotations, api.AnnotationPrice)
		return n
	}
	for _, c := range []struct {
		name string
		play func(r *rig)
		want string
	}{
		{"a price begins when the book says, also where the meter looks later", func(r *rig) {
			r.ruledBy(cost.NewRules([]cost.Rule{rule("a", -60, 2), rule("b", 30, 4)}))
			r.node(plain())
			r.missed()
			r.flush()
			r.clock = at(40)
			r.flush()
			r.clock = at(60)
		}, "idle=1h $3"},
		{"a price that is written after it begins counts from when it is written", func(r *rig) {
			r.ruledBy(cost.NewRules([]cost.Rule{rule("a", -60, 2)}))
			r.node(plain())
			r.missed()
			r.flush()
			r.clock = at(30)
			r.ruledBy(cost.NewRules([]cost.Rule{rule("a", -60, 2), rule("b", 0, 4)}))
			r.flush()
			r.clock = at(60)
		}, "idle=1h $3"},
		{"a price that begins while there is no meter", func(r *rig) {
			r.ruledBy(cost.NewRules([]cost.Rule{rule("a", -60, 2), rule("b", 30, 4)}))
			r.node(plain())
			r.missed()
			r.flush()
			r.clock = at(45)
			r.start()
			r.ruledBy(cost.NewRules([]cost.Rule{rule("a", -60, 2), rule("b", 30, 4)}))
			r.node(plain())
			r.missed()
			r.flush()
			r.clock = at(60)
		}, "idle=1h $3"},
		{"a book that is removed leaves the node without a price", func(r *rig) {
			r.ruledBy(cost.NewRules([]cost.Rule{rule("a", -60, 2)}))
			r.node(plain())
			r.missed()
			r.flush()
			r.clock = at(30)
			r.ruledBy(nil)
			r.flush()
			r.clock = at(60)
		}, "idle=0.5h $1, idle=0.5h $0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			c.play(r)
			r.want(cost.Namespace, c.want)
		})
	}
}

// TestPricesOfThePastChangeByCommandOnly prices an hour again: the charges, the closed day, and the chain follow.
func TestPricesOfThePastChangeByCommandOnly(t *testing.T) {
	r := newRig(t)
	m := New(r.book, Options{})
	m.tally = r.tally
	cheap := cost.Rule{Book: "lab", Name: "cheap", Micros: 2_000_000, Currency: "USD"}
	dear := cost.Rule{Book: "lab", Name: "dear", From: at(-60), Micros: 4_000_000, Currency: "USD"}
	n := aNode("n", 1, 0)
	delete(n.Annotations, api.AnnotationPrice)
	gone := aNode("gone", 1, 0)
	delete(gone.Annotations, api.AnnotationPrice)
	r.ruledBy(cost.NewRules([]cost.Rule{cheap}))
	r.node(n)
	r.node(gone)
	r.missed()
	r.flush()
	r.clock = at(60)
	r.nodeGone(gone)
	r.flush()
	r.clock = at(2 * 1440)
	r.flush()
	for closed := true; closed; {
		var err error
		if closed, err = r.book.CloseDay(t.Context(), r.clock); err != nil {
			t.Fatal(err)
		}
	}
	r.ruledBy(cost.NewRules([]cost.Rule{cheap, dear}))
	r.flush()
	r.want(cost.Namespace, "idle=49h $98")
	got, err := m.rerate(t.Context(), &ledger.Rerating{From: at(0), To: at(60), At: r.clock, User: "ann", Reason: "the contract"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Nodes != 1 || got.Gone != 1 || got.Before[0].Micros != 4_000_000 || got.After[0].Micros != 6_000_000 {
		t.Errorf("the answer is %+v", got)
	}
	r.want(cost.Namespace, "idle=49h $100")
	if closed, err := r.book.CloseDay(t.Context(), r.clock); !closed || err != nil {
		t.Errorf("the day is not closed again: %v", err)
	}
	checked, err := r.book.Verify(t.Context())
	if err != nil || len(checked.Problems) > 0 || len(checked.Reclosed) != 1 || checked.Reclosed[0].What != "priced again by ann: the contract" {
		t.Errorf("the chain is %+v, %v", checked, err)
	}
}
