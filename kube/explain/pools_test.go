package explain_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
)

// TestAPoolWithoutQuotaHasNoRoom has a pod wait for the pool that it has quota in, though GPUs are
// free in another.
func TestAPoolWithoutQuotaHasNoRoom(t *testing.T) {
	in := func(name, pool string) *v1.Node {
		return kubetest.Foreign(name, kubetest.With(kubetest.Product("Tesla-T4", 2, 15360), "pool", pool), api.ResourceGPU, 2)
	}
	nodes := []*v1.Node{in("n1", "a"), in("n2", "b")}
	other, pod := kubetest.Pod("other", "n1", api.ResourceGPU, 2), kubetest.Pod("waits", "", api.ResourceGPU, 1)
	other.Namespace = "elsewhere"
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "red"}, Spec: v1alpha1.QueueSpec{
		Namespaces: &v1alpha1.QueueNamespaces{Names: []string{pod.Namespace}},
		Quotas: []v1alpha1.QueueQuota{
			{GPUs: "pool=a", Nominal: resource.MustParse("1")}, {GPUs: "pool=b", Nominal: resource.MustParse("0")},
		},
	}}
	pods := []*v1.Pod{other, pod}
	s := &explain.Situation{Pod: pod, Nodes: nodes, Pods: pods, Queues: queues.Read(&queues.Situation{Queues: []*v1alpha1.Queue{q}, Nodes: nodes, Pods: pods})}
	got := map[string]string{}
	for _, n := range s.Facts(nil, time.Now()).Verdict.Nodes {
		for i := range n.Gaps {
			got[n.Node] += n.Gaps[i].String() + "; "
		}
	}
	if want := "its queue red has no quota for these GPUs now; "; got["n2"] != want {
		t.Errorf("n2: %q, want %q", got["n2"], want)
	}
	if got["n1"] == "" {
		t.Error("n1 has room, and is full")
	}
	q.Spec.Quotas = q.Spec.Quotas[:1]
	s = &explain.Situation{Pod: pod, Nodes: nodes, Pods: pods, Queues: queues.Read(&queues.Situation{Queues: []*v1alpha1.Queue{q}, Nodes: nodes, Pods: pods})}
	for _, n := range s.Facts(nil, time.Now()).Verdict.Nodes {
		if n.Node == "n2" && len(n.Gaps) > 0 {
			t.Errorf("no quota counts pool b, and n2 says %q", n.Gaps[0].String())
		}
	}
}
