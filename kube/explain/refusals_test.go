package explain_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

// world is nodes that change, with the pods on them.
type world struct {
	nodes []*v1.Node
	pods  [][]*v1.Pod
	at    []int64
}

func (w *world) Len() int                     { return len(w.nodes) }
func (w *world) Node(i int) (*v1.Node, int64) { return w.nodes[i], w.at[i] }
func (w *world) Pods(i int) []*v1.Pod         { return w.pods[i] }
func (w *world) changed(i int)                { w.at[i]++ }
func (w *world) set(i int, edit func(*v1.Node)) {
	n := w.nodes[i].DeepCopy()
	edit(n)
	w.nodes[i] = n
	w.changed(i)
}

func (w *world) all() []*v1.Pod {
	var out []*v1.Pod
	for _, list := range w.pods {
		out = append(out, list...)
	}
	return out
}

// TestRefusalsFollowTheNodes compares what Refusals say after each of many changes with
// what a cluster that is read again says.
func TestRefusalsFollowTheNodes(t *testing.T) {
	byDefault := 0
	for seed := range int64(12) {
		rng := rand.New(rand.NewSource(seed))
		w := &world{}
		for i := range 3 + rng.Intn(4) {
			name := fmt.Sprintf("n-%d", (i*7)%10) // not in the order of names
			n := kubetest.Inventory(name, kubetest.A100s(name, 4), "cpu", 16, "memory", 64<<30, "pods", 20, api.ResourceGPU, 4)
			n.Labels["zone"] = fmt.Sprint("z", i%2)
			w.nodes, w.pods, w.at = append(w.nodes, n), append(w.pods, nil), append(w.at, 1)
		}
		r := explain.NewRefusals()
		var classes []schedulingv1.PriorityClass
		for step := range 60 {
			w.step(rng, step)
			if rng.Intn(10) == 0 {
				classes = []schedulingv1.PriorityClass{
					{ObjectMeta: metav1.ObjectMeta{Name: "some"}, Value: 1},
					{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 2, GlobalDefault: rng.Intn(2) == 0},
					{ObjectMeta: metav1.ObjectMeta{Name: "older"}, Value: 3, GlobalDefault: true},
				}
				r.SetPriorities(classes)
			}
			asks := []*v1.Pod{
				kubetest.Unplaced("a", 0, 1+rng.Intn(5)),
				kubetest.Unplaced("b", 0, 2, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "z1"} }),
				kubetest.Unplaced("c", 0, 1, func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = kubetest.Amounts("cpu", 9) }),
				kubetest.Unplaced("ranked", 0, 2, func(p *v1.Pod) {
					p.Spec.Priority, p.Spec.PriorityClassName, p.Spec.PreemptionPolicy = new(int32(1)), "some", new(v1.PreemptNever)
				}),
				kubetest.Unplaced("outranked", 0, 4, func(p *v1.Pod) { p.Spec.Priority, p.Spec.PriorityClassName = new(int32(1)), "some" }),
				kubetest.Unplaced("equal", 0, 4, func(p *v1.Pod) { p.Spec.Priority, p.Spec.PriorityClassName = new(int32(1)), "usual" }),
				kubetest.Unplaced("d", 0, 1, func(p *v1.Pod) {
					p.Labels = map[string]string{"app": "x"}
					p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: antiAffinity("zone")}
				}),
			}
			explain.Rested(r)
			for _, p := range asks {
				fresh, err := explain.NewCluster(w.nodes, w.all())
				if err != nil {
					t.Fatal(err)
				}
				fresh.SetPrivate()
				fresh.SetPriorities(classes)
				got, want := r.Judge(p, nil, w), fresh.Judge(p)
				if d := want.Detail; d != nil && d.Code == reasons.CodeDefaultClass {
					byDefault++
				}
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.AllowUnexported(reasons.Cause{})); diff != "" {
					t.Fatalf("seed %d, step %d, pod %s (-read again +followed):\n%s", seed, step, p.Name, diff)
				}
			}
		}
	}
	if byDefault < 20 {
		t.Errorf("the default PriorityClass was the cause only %d times", byDefault)
	}
}

func antiAffinity(key string) *v1.PodAntiAffinity {
	return &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
		TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
	}}}
}

// step changes one node, or the pods on it; rarely a node comes.
func (w *world) step(rng *rand.Rand, step int) {
	i := rng.Intn(len(w.nodes))
	switch rng.Intn(8) {
	case 0, 1, 2:
		p := kubetest.Pod(fmt.Sprint("p-", step), w.nodes[i].Name, "cpu", 1+rng.Intn(6), api.ResourceGPU, rng.Intn(3))
		if rng.Intn(4) == 0 {
			p.Labels = map[string]string{"app": "x"}
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: antiAffinity("zone")}
		}
		p.Spec.Priority = new(int32(rng.Intn(3)))
		p.Spec.PriorityClassName = []string{"", "some", "usual", "older"}[rng.Intn(4)]
		w.pods[i] = append(append([]*v1.Pod{}, w.pods[i]...), p)
	case 3:
		if len(w.pods[i]) > 0 {
			w.pods[i] = append([]*v1.Pod{}, w.pods[i][1:]...)
		}
	case 4:
		w.set(i, func(n *v1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable })
	case 5:
		w.set(i, func(n *v1.Node) {
			n.Spec.Taints = append(n.Spec.Taints[:0:0], v1.Taint{Key: "team", Value: "a", Effect: v1.TaintEffectNoSchedule})[:rng.Intn(2)]
		})
	case 6: // a pod is being deleted
		if len(w.pods[i]) > 0 {
			w.pods[i] = append([]*v1.Pod{}, w.pods[i]...)
			going := w.pods[i][0].DeepCopy()
			going.DeletionTimestamp = &metav1.Time{Time: kubetest.Started}
			w.pods[i][0] = going
		}
	case 7:
		if rng.Intn(4) == 0 {
			name := fmt.Sprint("m-", step)
			w.nodes = append(w.nodes, kubetest.Inventory(name, kubetest.A100s(name, 4), "cpu", 16, "memory", 64<<30, "pods", 20, api.ResourceGPU, 4))
			w.pods, w.at = append(w.pods, nil), append(w.at, 1)
			return
		}
		w.set(i, func(n *v1.Node) {
			n.Status.Allocatable[api.ResourceGPU] = *resource.NewQuantity(int64(2+2*rng.Intn(2)), resource.DecimalSI)
		})
	}
	w.changed(i)
}

// BenchmarkRefusals is one refusal on 1,000 nodes with 20,000 pods, of 2,000 waiting pods of
// 16 asks, each with its own name and labels, while after every hundredth a node changes.
func BenchmarkRefusals(b *testing.B) {
	nodes, pods := fleet(2000, 16)
	w := &world{nodes: nodes, pods: make([][]*v1.Pod, len(nodes)), at: make([]int64, len(nodes))}
	of := map[string]int{}
	for i, n := range nodes {
		of[n.Name] = i
	}
	var waiting []*v1.Pod
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			p.Labels = map[string]string{"batch.kubernetes.io/job-completion-index": p.Name}
			waiting = append(waiting, p)
		} else {
			i := of[p.Spec.NodeName]
			w.pods[i] = append(w.pods[i], p)
		}
	}
	r := explain.NewRefusals()
	if r.Judge(waiting[0], nil, w) == nil {
		b.Fatal("no verdict")
	}
	i := 0
	for b.Loop() {
		if i++; i%100 == 0 {
			k := i / 100 % len(nodes)
			w.pods[k] = w.pods[k][:len(w.pods[k])-1]
			w.changed(k)
		}
		if v := r.Judge(waiting[i%len(waiting)], nil, w); v.Binding() == nil {
			b.Fatal("no cause")
		}
	}
}
