package queues_test

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
)

// TestKinds has the kinds of GPUs that pods may use where quotas count pools.
func TestKinds(t *testing.T) {
	const a100, t4 = "NVIDIA-A100-SXM4-40GB", "Tesla-T4"
	node := func(name, product string, labels ...string) *v1.Node {
		n := kubetest.Foreign(name, kubetest.With(kubetest.Product(product, 2, 15360), labels...), api.ResourceGPU, 2)
		return n
	}
	tainted := func(n *v1.Node, value string) *v1.Node {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "workload", Value: value, Effect: v1.TaintEffectNoSchedule}, v1.Taint{Key: "node.kubernetes.io/not-ready", Effect: v1.TaintEffectNoExecute})
		return n
	}
	nodes := []*v1.Node{
		node("n1", a100, "workload", "training", "zone", "a"), node("n2", a100, "workload", "serving"), node("n3", t4, "workload", "training"),
		node("n4", t4), tainted(node("n5", t4, "workload", "notebooks"), "notebooks"),
		kubetest.Foreign("cpu", map[string]string{"workload": "training"}),
	}
	pod := func() *v1.Pod { return kubetest.Pod("p", "", api.ResourceGPU, 1) }
	pool := func(operator v1.NodeSelectorOperator, values ...string) *v1.Pod {
		return requiring(pod(), v1.NodeSelectorRequirement{Key: "workload", Operator: operator, Values: values})
	}
	selects := func(p *v1.Pod, key, value string) *v1.Pod {
		p.Spec.NodeSelector = map[string]string{key: value}
		return p
	}
	tolerating := pod()
	tolerating.Spec.Tolerations = []v1.Toleration{{Key: "workload", Operator: v1.TolerationOpExists}}
	for _, tt := range []struct {
		name   string
		labels string
		pod    *v1.Pod
		want   string
	}{
		{"without labels only products differ", "", pod(), a100 + " " + t4},
		{"labels that quotas do not name tell nothing apart", "zone=b", pod(), a100 + " " + t4},
		{"a pod that says nothing may use every pool that it tolerates", "workload=training workload=notebooks", pod(), a100 + " " + a100 + "/workload=training " + t4 + " " + t4 + "/workload=training"},
		{"and those of taints that it tolerates", "workload=notebooks", tolerating, a100 + " " + t4 + " " + t4 + "/workload=notebooks"},
		{"a node selector names a pool", "workload=training workload=serving", selects(pod(), "workload", "serving"), a100 + "/workload=serving"},
		{"a node selector names a pool that no quota names", "workload=training", selects(pod(), "workload", "serving"), a100},
		{"a node selector of another label says nothing", "workload=serving", selects(pod(), "zone", "a"), a100 + " " + a100 + "/workload=serving " + t4},
		{"an affinity names two pools", "workload=training workload=serving", pool(v1.NodeSelectorOpIn, "serving", "training"), a100 + "/workload=serving " + a100 + "/workload=training " + t4 + "/workload=training"},
		{"an affinity excludes a pool", "workload=training", pool(v1.NodeSelectorOpNotIn, "training"), a100 + " " + t4},
		{"an affinity is for nodes without the label", "workload=training", pool(v1.NodeSelectorOpDoesNotExist), t4},
		{"a pool that has no node yet", "workload=batch", selects(pod(), "workload", "batch"), "/workload=batch"},
		{"a product that no node has", "workload=training", selecting(pod(), "Tesla-V100-SXM2-16GB"), "Tesla-V100-SXM2-16GB"},
		{"a node is in two pools", "workload=training zone=a", selects(pod(), "zone", "a"), a100 + "/workload=training,zone=a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &queues.Offers{}
			for _, n := range nodes[:3] {
				o.Set(n)
			}
			o.Count(naming(strings.Fields(tt.labels)))
			for _, n := range nodes[3:] {
				o.Set(n)
			}
			var got []string
			_, kinds := queues.Asked(tt.pod, o, sharing.AllWays)
			for _, k := range kinds {
				got = append(got, strings.TrimSuffix(k.Product+"/"+k.Labels, "/"))
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
		})
	}
}

// TestANodeMovesToAnotherPool has a pod count in the pool of its node as it is now.
func TestANodeMovesToAnotherPool(t *testing.T) {
	in := func(name, pool string) *v1.Node {
		return kubetest.Foreign(name, kubetest.With(kubetest.Product("Tesla-T4", 2, 15360), "pool", pool), api.ResourceGPU, 2)
	}
	o := offersOf(in("n1", "a"), in("n2", "a"), in("n3", "b"))
	o.Count(naming([]string{"pool=a", "pool=b"}))
	pod := kubetest.Pod("p", "n1", api.ResourceGPU, 1)
	if got := o.Held(pod)[0].Labels; got != "pool=a" {
		t.Errorf("in pool a it counts in %q", got)
	}
	if !o.Set(in("n1", "b")) {
		t.Error("the node is in another pool, and nothing said so")
	}
	if got := o.Held(pod)[0].Labels; got != "pool=b" {
		t.Errorf("in pool b it counts in %q", got)
	}
	if o.Set(in("n1", "b")) {
		t.Error("the node is as it was, and it is said to have changed")
	}
	if k := o.KindOf(in("n2", "b")); k.Labels != "pool=b" || k.Product != "Tesla-T4" {
		t.Errorf("a newer version of a node has kind %+v", k)
	}
}

func TestLabels(t *testing.T) {
	q := queueOf("a", 0, func(s *v1alpha1.QueueSpec) {
		s.Quotas = []v1alpha1.QueueQuota{{GPUs: v1alpha1.GPUsAll}, {GPUs: "workload=training"}}
		s.PerUser, s.PerPod = []v1alpha1.QueueLimit{{GPUs: "zone=a"}}, []v1alpha1.QueueLimit{{GPUs: "workload=training"}}
		s.PreferredGPUs = []string{"Tesla-T4", "a/b="}
	})
	if got := queues.Labels([]*v1alpha1.Queue{q, queueOf("b", 0)}); !slices.Equal(got, []string{"a/b=", "workload=training", "zone=a"}) {
		t.Errorf("labels %q", got)
	}
}
