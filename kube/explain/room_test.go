package explain_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

// rows: NB-25 NB-38 NB-46 NB-54

// wanting is a pod that asks for GPUs.
func wanting(name string, gpus int, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "mine"},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{
			Name: "c", Resources: v1.ResourceRequirements{Limits: kubetest.Amounts("nvidia.com/gpu", gpus)},
		}}},
	}
}

func TestRoom(t *testing.T) {
	node := func(name string) *v1.Node {
		return kubetest.Foreign(name, map[string]string{"nvidia.com/gpu.count": "2", "kind": name}, "nvidia.com/gpu", 2, "cpu", 64, "memory", 1<<40, "pods", 110)
	}
	mine, other := wanting("mine", 1, "n1"), wanting("other", 1, "n1")
	mine.UID, other.UID = "mine", "other"
	two, three := wanting("mine", 2, ""), wanting("mine", 3, "")
	elsewhere := wanting("mine", 2, "")
	elsewhere.Spec.NodeSelector = map[string]string{"kind": "n2"}
	hungry := wanting("mine", 1, "")
	hungry.Spec.Containers[0].Resources.Requests = kubetest.Amounts("cpu", 100)
	tainted := node("n2")
	tainted.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}}
	for _, test := range []struct {
		name  string
		nodes []*v1.Node
		pods  []*v1.Pod
		pod   *v1.Pod
		why   string // "" is that there is room
	}{
		{"what the pod holds now counts as free", []*v1.Node{node("n1")}, []*v1.Pod{mine}, two, ""},
		{"what others hold does not", []*v1.Node{node("n1")}, []*v1.Pod{mine, other}, two, "no node has 2 nvidia.com/gpu for it (nodes: 1 too few GPUs free)"},
		{"another node will do", []*v1.Node{node("n1"), node("n2")}, []*v1.Pod{mine, other}, two, ""},
		{"but not one with a taint", []*v1.Node{node("n1"), tainted}, []*v1.Pod{mine, other}, two, "no node has 2 nvidia.com/gpu for it (nodes: 1 not for it, 1 too few GPUs free)"},
		{"nor one that it does not select", []*v1.Node{node("n1")}, nil, elsewhere, "no node has 2 nvidia.com/gpu for it (nodes: 1 not for it)"},
		{"nor one that is too small", []*v1.Node{node("n1")}, nil, three, "no node has 3 nvidia.com/gpu for it (nodes: 1 too few GPUs free)"},
		{"nor one with too little CPU", []*v1.Node{node("n1")}, nil, hungry, "no node has 1 nvidia.com/gpu for it (nodes: 1 too little CPU)"},
		{"without nodes there is none", nil, nil, two, "there is no node"},
	} {
		short, err := explain.Room(test.nodes, test.pods, test.pod, "mine")
		why := ""
		if short != nil {
			why = short.String()
		}
		if err != nil || why != test.why {
			t.Errorf("%s: Room returns %q, %v; want %q", test.name, why, err, test.why)
		}
	}
}

func TestQuotaRoom(t *testing.T) {
	quota := v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Status: v1.ResourceQuotaStatus{
		Hard: kubetest.Amounts("requests.nvidia.com/gpu", 2, "pods", 1), Used: kubetest.Amounts("requests.nvidia.com/gpu", 2, "pods", 1),
	}}
	scoped := quota
	scoped.Spec.Scopes = []v1.ResourceQuotaScope{v1.ResourceQuotaScopeBestEffort}
	for _, test := range []struct {
		name     string
		quota    v1.ResourceQuota
		now, was int
		why      string
	}{
		{"as much as before is no more", quota, 1, 1, ""},
		{"less is no more", quota, 1, 2, ""},
		{"one more is too much", quota, 2, 1, "quota q allows 2 of requests.nvidia.com/gpu, 2 are used, and it would take 1 more"},
		{"a quota with a scope is left out", scoped, 2, 1, ""},
	} {
		why := ""
		if short := explain.QuotaRoom([]v1.ResourceQuota{test.quota}, wanting("p", test.now, ""), wanting("p", test.was, "n1")); short != nil {
			why = short.String()
		}
		if why != test.why {
			t.Errorf("%s: QuotaRoom returns %q, want %q", test.name, why, test.why)
		}
	}
}

func TestWhatNoNodeHas(t *testing.T) {
	node := func(name, product string) *v1.Node {
		return kubetest.Foreign(name, map[string]string{"nvidia.com/gpu.product": product, "nvidia.com/cuda.runtime.major": "12", "nvidia.com/cuda.runtime.minor": "2"}, "nvidia.com/gpu", 8)
	}
	plain := kubetest.Foreign("cpu", nil, "cpu", 8)
	broken := node("b", "Tesla-T4")
	broken.Status.Allocatable = kubetest.Amounts("nvidia.com/gpu", 0)
	cordoned := node("c", "Tesla-T4")
	cordoned.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}}
	tainted := node("t", "Tesla-T4")
	tainted.Spec.Taints = []v1.Taint{{Key: "gpu", Value: "yes", Effect: v1.TaintEffectNoSchedule}}

	selects := wanting("p", 1, "")
	selects.Spec.NodeSelector = map[string]string{"gpu-model": "Tesla-V100"}
	lacks := func(pod *v1.Pod, nodes ...*v1.Node) string { return trial(t, nodes).Judge(pod).Lacks() }
	for _, tt := range []struct{ name, got, want string }{
		{
			"a label that no node has", lacks(selects, plain, node("a", "NVIDIA-A100-SXM4-40GB"), node("v", "Tesla-V100-SXM2-16GB")),
			"no node has the label gpu-model=Tesla-V100; the nearest is nvidia.com/gpu.product=Tesla-V100-SXM2-16GB; change nodeSelector, or label a node",
		},
		{
			"too many for those that are well", lacks(wanting("p", 9, ""), plain, broken, cordoned, tainted),
			"it asks for 9 nvidia.com/gpu, and no node that it may use has more than 8; ask for less",
		},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q\nwant %q", tt.name, tt.got, tt.want)
		}
	}
	share := wanting("p", 0, "")
	share.Spec.Containers[0].Resources.Limits = kubetest.Amounts("nvidia.com/gpu-memory", 6)
	if v := trial(t, []*v1.Node{plain, kubetest.Foreign("a", kubetest.Product("Tesla-T4", 8, 15360), "nvidia.com/gpu", 8)}).Judge(share); len(v.Causes) != 0 {
		t.Errorf("a share of a GPU: %+v, want a node that has room", v.Causes)
	}
	if got := explain.NewestCUDA([]*v1.Node{plain, node("a", "x"), tainted}, wanting("p", 1, "")).String(); got != "12.2" {
		t.Errorf("the newest CUDA is %s, want 12.2", got)
	}
}
