package queues_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
)

const mig1g = api.ResourceMIGPrefix + "1g.5gb"

// offersOf knows nodes.
func offersOf(nodes ...*v1.Node) *queues.Offers {
	o := &queues.Offers{}
	for _, n := range nodes {
		o.Set(n)
	}
	return o
}

// labeled gives a node the labels of GPU Feature Discovery for a product.
func labeled(n *v1.Node, product string) *v1.Node {
	n.Labels[api.LabelProduct] = product
	return n
}

// requiring adds a required node affinity, one term for each condition.
func requiring(p *v1.Pod, terms ...v1.NodeSelectorRequirement) *v1.Pod {
	s := &v1.NodeSelector{}
	for _, t := range terms {
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{t}})
	}
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}}
	return p
}

func product(operator v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: api.LabelProduct, Operator: operator, Values: values}
}

func selecting(p *v1.Pod, value string) *v1.Pod {
	p.Spec.NodeSelector = map[string]string{api.LabelProduct: value}
	return p
}

// rows: GS-28
func TestAsked(t *testing.T) {
	const a100, t4 = "NVIDIA-A100-SXM4-40GB", "Tesla-T4"
	whole := labeled(kubetest.Inventory("whole", kubetest.A100s("whole", 8), api.ResourceGPU, 8), a100)
	cut := labeled(kubetest.Inventory("cut", kubetest.Cut("cut", kubetest.A100s("cut", 1)), mig1g, 7), a100)
	shared := kubetest.Foreign("shared", kubetest.With(kubetest.Product(t4+"-SHARED", 2, 15360), api.LabelReplicas, "4"), api.ResourceGPU, 8)
	plain := kubetest.Foreign("plain", kubetest.Product(t4, 2, 15360), api.ResourceGPU, 2)
	eight := kubetest.Foreign("eight", kubetest.With(kubetest.Product(t4+"-SHARED", 8, 15360), api.LabelReplicas, "4"), api.ResourceGPU, 32)
	gpus := func(n int) *v1.Pod { return kubetest.Pod("p", "", api.ResourceGPU, n) }
	for _, tt := range []struct {
		name     string
		nodes    []*v1.Node
		pod      *v1.Pod
		want     []quota.Piece
		products []string
	}{
		{"nothing", []*v1.Node{whole}, kubetest.Pod("p", "", "cpu", 1), nil, nil},
		{"whole GPUs", []*v1.Node{whole, shared}, gpus(2), []quota.Piece{{Devices: 2, Parts: 2 * quota.Whole}}, []string{a100, t4}},
		{"more than any node has", []*v1.Node{whole}, gpus(100), []quota.Piece{{Devices: 100, Parts: 100 * quota.Whole}}, []string{a100}},
		{"shares, where all nodes have shares", []*v1.Node{shared}, gpus(2), []quota.Piece{{Devices: 2, Parts: quota.Whole / 2}}, []string{t4}},
		{"all 32 shares of a node of 8 GPUs are 8 GPUs of a quota", []*v1.Node{eight}, gpus(32), []quota.Piece{{Devices: 32, Parts: 8 * quota.Whole}}, []string{t4}},
		{"shares, where the nodes that it selects have shares", []*v1.Node{whole, plain, shared}, selecting(gpus(1), t4+"-SHARED"), []quota.Piece{{Devices: 1, Parts: quota.Whole / 4}}, []string{t4}},
		{"a whole GPU on the nodes that it selects", []*v1.Node{whole, plain, shared}, selecting(gpus(1), t4), []quota.Piece{{Devices: 1, Parts: quota.Whole}}, []string{t4}},
		{"a cluster without nodes", nil, gpus(1), []quota.Piece{{Devices: 1, Parts: quota.Whole}}, nil},
		{"MIG devices", []*v1.Node{whole, cut}, kubetest.Pod("p", "", mig1g, 3), []quota.Piece{{Profile: "1g.5gb", Devices: 3, Parts: quota.Whole / 7 * 3}}, []string{a100}},
		{"MIG devices that no node has", []*v1.Node{whole}, kubetest.Pod("p", "", api.ResourceMIGPrefix+"1g.6gb", 1), []quota.Piece{{Profile: "1g.6gb", Devices: 1, Parts: quota.Whole / 4}}, []string{a100}},
		{"MIG devices with media, as their resource is written", nil, kubetest.Pod("p", "", api.ResourceMIGPrefix+"1g.5gb.me", 1), []quota.Piece{{Profile: "1g.5gb+me", Devices: 1, Parts: quota.Whole / 7}}, nil},
		{"a share by memory is of the smallest GPU", []*v1.Node{whole, plain}, kubetest.Pod("p", "", api.ResourceGPUMemory, 5), []quota.Piece{{Devices: 1, Parts: quota.PartOfMilli(333)}}, []string{a100, t4}},
		{"a share by memory of the GPU that it selects", []*v1.Node{whole, plain}, selecting(kubetest.Pod("p", "", api.ResourceGPUMemory, 5), a100), []quota.Piece{{Devices: 1, Parts: quota.PartOfMilli(125)}}, []string{a100}},
		{"a share by memory, where all GPUs are divided", []*v1.Node{cut, shared}, kubetest.Pod("p", "", api.ResourceGPUMemory, 5), []quota.Piece{{Devices: 1, Parts: quota.Whole}}, []string{a100, t4}},
		{"KAI's half of a GPU", nil, noted(kubetest.Pod("p", "", "cpu", 1), api.AnnotationKAIFraction, "0.5"), []quota.Piece{{Devices: 1, Parts: quota.Whole / 2}}, nil},
		{"memory of two GPUs counts twice (KAI#1369)", []*v1.Node{whole, plain}, selecting(noted(noted(kubetest.Pod("p", "", "cpu", 1), api.AnnotationKAIMemory, "5120"), api.AnnotationKAIDevices, "2"), a100), []quota.Piece{{Devices: 2, Parts: quota.PartOfMilli(250)}}, []string{a100}},
		{"one of two products, by affinity", []*v1.Node{whole, plain}, requiring(gpus(1), product(v1.NodeSelectorOpIn, t4, "NVIDIA-H100-80GB-HBM3")), []quota.Piece{{Devices: 1, Parts: quota.Whole}}, []string{"NVIDIA-H100-80GB-HBM3", t4}},
		{"one of two products, by terms", []*v1.Node{whole}, requiring(gpus(1), product(v1.NodeSelectorOpIn, t4), product(v1.NodeSelectorOpIn, a100)), []quota.Piece{{Devices: 1, Parts: quota.Whole}}, []string{a100, t4}},
		{"all products but one", []*v1.Node{whole, plain, shared}, requiring(gpus(1), product(v1.NodeSelectorOpNotIn, a100)), []quota.Piece{{Devices: 1, Parts: quota.Whole}}, []string{t4}},
		{"any product that a label names", []*v1.Node{whole, plain}, requiring(gpus(1), product(v1.NodeSelectorOpExists)), []quota.Piece{{Devices: 1, Parts: quota.Whole}}, []string{a100, t4}},
		{"nodes without the label are not among those with one", []*v1.Node{kubetest.Inventory("n", kubetest.Share(kubetest.A100s("n", 1), 4), api.ResourceGPU, 4)}, requiring(gpus(1), product(v1.NodeSelectorOpExists)), []quota.Piece{{Devices: 1, Parts: quota.Whole}}, nil},
		{"nodes without the label alone", []*v1.Node{plain, kubetest.Inventory("n", kubetest.Share(kubetest.A100s("n", 1), 4), api.ResourceGPU, 4)}, requiring(gpus(1), product(v1.NodeSelectorOpDoesNotExist)), []quota.Piece{{Devices: 1, Parts: quota.Whole / 4}}, []string{a100}},
		{"a term without the label allows all", []*v1.Node{whole}, requiring(gpus(1), product(v1.NodeSelectorOpIn, t4), v1.NodeSelectorRequirement{Key: "zone", Operator: v1.NodeSelectorOpExists}), []quota.Piece{{Devices: 1, Parts: quota.Whole}}, []string{a100}},
		{"a selector and an affinity hold together", []*v1.Node{whole, plain}, selecting(requiring(gpus(1), product(v1.NodeSelectorOpIn, t4, a100)), t4), []quota.Piece{{Devices: 1, Parts: quota.Whole}}, []string{t4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, kinds := queues.Asked(tt.pod, offersOf(tt.nodes...), sharing.AllWays)
			got.Ways = nil // see TestWays
			var products []string
			for _, k := range kinds {
				products = append(products, k.Product)
			}
			if diff := cmp.Diff(quota.Pod{ID: string(tt.pod.UID), Pieces: tt.want}, got); diff != "" {
				t.Errorf("pieces -want +got\n%s", diff)
			}
			if !slices.Equal(products, tt.products) {
				t.Errorf("products %q, want %q", products, tt.products)
			}
		})
	}
}

// TestWays: a pod gets the ways of the nodes that it can be on, each once.
func TestWays(t *testing.T) {
	const a100, t4 = "NVIDIA-A100-SXM4-40GB", "Tesla-T4"
	const whole, mig, timed, mps, memory = sharing.WayWhole, sharing.WayMIG, sharing.WayTimeSlicing, sharing.WayMPS, sharing.WayMemory
	plain := kubetest.Foreign("plain", kubetest.Product(t4, 2, 15360), api.ResourceGPU, 2)
	cut := labeled(kubetest.Inventory("cut", kubetest.Cut("cut", kubetest.A100s("cut", 1)), mig1g, 7), a100)
	shared := kubetest.Foreign("shared", kubetest.With(kubetest.Product(t4+"-SHARED", 2, 15360), api.LabelReplicas, "4"), api.ResourceGPU, 8)
	served := kubetest.Foreign("served", kubetest.With(kubetest.Product(t4+"-SHARED", 2, 15360), api.LabelReplicas, "4", "nvidia.com/gpu.sharing-strategy", "mps"), api.ResourceGPU, 8)
	single := kubetest.Foreign("single", kubetest.With(kubetest.Product(a100+"-MIG-1g.5gb", 7, 4864), "nvidia.com/mig.strategy", "single", "nvidia.com/gpu.slices.gi", "1"), api.ResourceGPU, 7)
	renamed := kubetest.Foreign("renamed", kubetest.With(kubetest.Product(t4+"-SHARED", 2, 15360), api.LabelReplicas, "4"), api.ResourceGPUShared, 8)
	divided := kubetest.Foreign("divided", kubetest.With(kubetest.Product(a100, 1, 40960), "nvidia.com/mig-1g.5gb.replicas", "2"), mig1g+".shared", 14)
	all := []*v1.Node{plain, cut, shared, served, single, renamed, divided}
	gpus := func(resource string) *v1.Pod { return kubetest.Pod("p", "", resource, 1) }
	type ways = []sharing.Ways
	for _, tt := range []struct {
		name  string
		nodes []*v1.Node
		pod   *v1.Pod
		want  ways
	}{
		{"a GPU, whatever the nodes make of it", all, gpus(api.ResourceGPU), ways{whole, mig, timed, mps}},
		{"of nodes that are alike one counts", []*v1.Node{plain, kubetest.Foreign("too", kubetest.Product(t4, 1, 15360), api.ResourceGPU, 1)}, gpus(api.ResourceGPU), ways{whole}},
		{"of nodes that it does not select none counts", all, selecting(gpus(api.ResourceGPU), t4), ways{whole}},
		{"a GPU without nodes may be anything", nil, gpus(api.ResourceGPU), nil},
		{"shares by their own name", all, gpus(api.ResourceGPUShared), ways{timed}},
		{"a MIG device", all, gpus(mig1g), ways{mig}},
		{"a MIG device that no node has", nil, gpus(mig1g), ways{mig}},
		{"a share of a MIG device is both", all, gpus(mig1g + ".shared"), ways{mig | timed}},
		{"a share by memory", all, gpus(api.ResourceGPUMemory), ways{memory}},
		{"a share by memory that no node offers", []*v1.Node{cut}, gpus(api.ResourceGPUMemory), ways{memory}},
		{"KAI's part of a GPU", nil, noted(kubetest.Pod("p", "", "cpu", 1), api.AnnotationKAIFraction, "0.5"), ways{memory}},
		{"no GPU", all, gpus("cpu"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := queues.Asked(tt.pod, offersOf(tt.nodes...), sharing.AllWays); !slices.Equal(got.Ways, tt.want) {
				t.Errorf("ways %b, want %b", got.Ways, tt.want)
			}
		})
	}
	t.Run("a pod counts as the most that it may get in an allowed way", func(t *testing.T) {
		for allowed, parts := range map[sharing.Ways]int64{sharing.AllWays: quota.Whole, timed: quota.Whole / 4, timed | whole: quota.Whole, memory: quota.Whole} {
			if got, _ := queues.Asked(gpus(api.ResourceGPU), offersOf(plain, shared), allowed); got.Pieces[0].Parts != parts {
				t.Errorf("allowed %s: %d parts, want %d", allowed.Text("and"), got.Pieces[0].Parts, parts)
			}
		}
	})
	t.Run("a pod with a node uses GPUs as the node offers them", func(t *testing.T) {
		o := offersOf(all...)
		for node, want := range map[string]sharing.Ways{"plain": whole, "shared": timed, "served": mps, "single": mig, "cut": 0, "gone": 0} {
			if got := o.WaysOf(kubetest.Pod("p", node, api.ResourceGPU, 1)); got != want {
				t.Errorf("on %s: %s, want %s", node, got.Text("and"), want.Text("and"))
			}
		}
	})
}

func noted(p *v1.Pod, key, value string) *v1.Pod {
	p.Annotations[key] = value
	return p
}

func TestHeld(t *testing.T) {
	node := kubetest.Inventory("n", kubetest.A100s("n", 2), api.ResourceGPU, 2)
	note, err := commit.ObservedNote(commit.Observed{"p": {"c": {{UUID: "GPU-n-1", MilliGPU: 1000}}}})
	if err != nil {
		t.Fatal(err)
	}
	told := node.DeepCopy()
	told.Annotations[api.AnnotationObserved] = note
	pod := kubetest.Pod("p", "n", api.ResourceGPU, 1)
	a100 := []quota.Piece{{Product: "NVIDIA-A100-SXM4-40GB", Devices: 1, Parts: quota.Whole}}
	gone := []quota.Piece{{Devices: 1, Parts: quota.Whole}}
	for _, tt := range []struct {
		name string
		node *v1.Node
		pod  *v1.Pod
		want []quota.Piece
	}{
		{"what it asks for on its node", node, pod, a100},
		{"what the node's agent says", told, pod, a100},
		{"what it asks for, where the node is not known", nil, pod, gone},
		{"what it asks for, where the node has no GPU now", kubetest.Foreign("n", map[string]string{}), pod, gone},
		{"nothing after it has ended", node, kubetest.Phase(kubetest.Pod("p", "n", api.ResourceGPU, 1), v1.PodFailed), nil},
		{"nothing without GPUs", node, kubetest.Pod("p", "n", "cpu", 1), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &queues.Offers{}
			if tt.node != nil {
				o.Set(tt.node)
			}
			if diff := cmp.Diff(tt.want, o.Held(tt.pod)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestOffersFollowNodes changes nodes one by one, and compares with Offers of the nodes
// that there are in the end; Set and Remove say when answers may differ.
func TestOffersFollowNodes(t *testing.T) {
	pods := []*v1.Pod{
		kubetest.Pod("gpu", "", api.ResourceGPU, 1), kubetest.Pod("mig", "", mig1g, 2), kubetest.Pod("memory", "", api.ResourceGPUMemory, 3),
		selecting(kubetest.Pod("t4", "", api.ResourceGPU, 1), "Tesla-T4"), requiring(kubetest.Pod("any", "", api.ResourceGPU, 1), product(v1.NodeSelectorOpExists)),
		requiring(kubetest.Pod("elsewhere", "", api.ResourceGPU, 1), v1.NodeSelectorRequirement{Key: "pool", Operator: v1.NodeSelectorOpNotIn, Values: []string{"c"}}),
	}
	labels := []string{"pool=a", "pool=b"}
	answers := func(o *queues.Offers) string {
		text := fmt.Sprint(o.Products())
		for _, p := range pods {
			asked, kinds := queues.Asked(p, o, sharing.AllWays)
			text += fmt.Sprintf("\n%s %v %d %v", p.Name, asked.Pieces, asked.Ways, kinds)
		}
		for i := range 4 {
			p := kubetest.Pod("held", fmt.Sprint("n", i), api.ResourceGPU, 1)
			text += fmt.Sprint("\n", p.Spec.NodeName, o.Held(p))
		}
		return text
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		o, there := &queues.Offers{}, map[string]*v1.Node{}
		if seed%2 == 0 {
			o.Count(naming(labels))
		}
		for step := range 12 {
			name := fmt.Sprint("n", r.IntN(4))
			before := answers(o)
			var told bool
			if r.IntN(4) == 0 {
				told = o.Remove(name)
				delete(there, name)
			} else {
				there[name] = pooled(r, randomNode(r, name))
				told = o.Set(there[name])
			}
			if r.IntN(8) == 0 {
				told = true
				o.Count(naming(labels[:r.IntN(3)]))
			}
			fresh := &queues.Offers{}
			fresh.Count(naming(o.Labels()))
			for _, n := range there {
				fresh.Set(n)
			}
			after := answers(o)
			if diff := cmp.Diff(answers(fresh), after); diff != "" {
				t.Fatalf("seed %d, step %d: -fresh +followed\n%s", seed, step, diff)
			}
			asked := func(text string) string { before, _, _ := strings.Cut(text, "\nn0"); return before }
			if !told && asked(before) != asked(after) {
				t.Fatalf("seed %d, step %d: what pods ask for has changed, and nothing said so", seed, step)
			}
		}
	}
}

// naming is a Queue that prefers GPUs by these names.
func naming(gpus []string) []*v1alpha1.Queue {
	return []*v1alpha1.Queue{queueOf("q", 0, func(s *v1alpha1.QueueSpec) { s.PreferredGPUs = append([]string{"Tesla-T4"}, gpus...) })}
}

// pooled gives a node a label and a taint, or none.
func pooled(r *rand.Rand, n *v1.Node) *v1.Node {
	n.Labels = maps.Clone(n.Labels)
	if pool := r.IntN(4); pool < 3 {
		n.Labels["pool"] = string(rune('a' + pool))
	}
	if r.IntN(3) == 0 {
		n.Spec.Taints = []v1.Taint{{Key: "team", Value: string(rune('a' + r.IntN(2))), Effect: v1.TaintEffectNoSchedule}}
	}
	return n
}

// randomNode offers some products in some ways.
func randomNode(r *rand.Rand, name string) *v1.Node {
	gpus := kubetest.A100s(name, 1+r.IntN(2))
	switch r.IntN(6) {
	case 0:
		return labeled(kubetest.Inventory(name, gpus, api.ResourceGPU, len(gpus)), "NVIDIA-A100-SXM4-40GB")
	case 1:
		return labeled(kubetest.Inventory(name, kubetest.Cut(name, gpus), mig1g, 7*len(gpus)), "NVIDIA-A100-SXM4-40GB")
	case 2:
		return kubetest.Inventory(name, kubetest.Share(gpus, 2+r.IntN(3)), api.ResourceGPU, 4*len(gpus))
	case 3:
		return kubetest.Foreign(name, kubetest.Product("Tesla-T4", 2, 15360), api.ResourceGPU, 2)
	case 4:
		return kubetest.Foreign(name, kubetest.With(kubetest.Product("Tesla-T4-SHARED", 2, 15360), api.LabelReplicas, "4"), api.ResourceGPU, 8)
	}
	return kubetest.Foreign(name, map[string]string{})
}

// BenchmarkMembers finds the queue of a pod among 1,000.
func BenchmarkMembers(b *testing.B) {
	var list []*v1alpha1.Queue
	for i := range 1000 {
		list = append(list, queueOf(fmt.Sprint("q", i), i, takes(v1alpha1.QueueNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": fmt.Sprint(i)}}})))
	}
	m := queues.NewMembers(list)
	pod, ns := podOf("n", ""), namespace("n", map[string]string{"team": "700", "env": "prod", "kubernetes.io/metadata.name": "n"})
	for b.Loop() {
		m.Of(pod, ns)
	}
}

// BenchmarkAsked reads a pod with 32 ways in which nodes offer GPUs.
func BenchmarkAsked(b *testing.B) {
	o := &queues.Offers{}
	for i, p := range gpu.Products() {
		o.Set(kubetest.Foreign(fmt.Sprint("n", i), kubetest.Product(p.LabelName(), 8, int(p.MemoryMiB)), api.ResourceGPU, 8))
	}
	pod := kubetest.Pod("p", "", api.ResourceGPU, 1)
	for b.Loop() {
		queues.Asked(pod, o, sharing.AllWays)
	}
}

// BenchmarkHeld reads what a pod holds on a node of 8 GPUs in 56 MIG devices.
func BenchmarkHeld(b *testing.B) {
	o := offersOf(kubetest.Inventory("n", kubetest.Cut("n", kubetest.A100s("n", 8)), mig1g, 56))
	pod := kubetest.Committed(kubetest.Pod("p", "n", mig1g, 1), `{"c":[{"uuid":"MIG-n-3-2","milliGPU":142}]}`)
	for b.Loop() {
		o.Held(pod)
	}
}

// BenchmarkSet is a heartbeat of such a node.
func BenchmarkSet(b *testing.B) {
	n := kubetest.Inventory("n", kubetest.Cut("n", kubetest.A100s("n", 8)), mig1g, 56)
	o, again := offersOf(n), n.DeepCopy()
	for b.Loop() {
		o.Set(again)
		n, again = again, n
	}
}
