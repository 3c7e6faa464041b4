package explain_test

import (
	"cmp"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	corequota "berth.dev/berth/core/quota"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
)

func TestRoomForPodsThatDoNotExist(t *testing.T) {
	node := func(name string, gpus int, how ...func(*v1.Node)) *v1.Node {
		n := kubetest.Foreign(name, kubetest.Product("Tesla-T4", gpus, 15360), "nvidia.com/gpu", gpus, "cpu", 64, "pods", 100)
		for _, do := range how {
			do(n)
		}
		return n
	}
	set := func(count, least, gpus int) queues.PodSet {
		return queues.PodSet{Pod: kubetest.Pod("", "", "nvidia.com/gpu", gpus), Set: corequota.Needed([]int{count}, cmp.Or(least, count))[0]}
	}
	tainted := func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}} }
	rack := func(name string) func(*v1.Node) {
		return func(n *v1.Node) { n.Labels = kubetest.With(n.Labels, api.LabelRack, name) }
	}
	inRack := func(s queues.PodSet) queues.PodSet {
		s.Pod.Annotations = map[string]string{api.AnnotationGang: "g", api.AnnotationGangMinCount: "1", api.AnnotationTopology: "rack"}
		return s
	}
	for name, c := range map[string]struct {
		nodes []*v1.Node
		pods  []*v1.Pod
		asks  [][]queues.PodSet // one after the other
		want  []int
	}{
		"as many as fit":                         {[]*v1.Node{node("a", 3), node("b", 3)}, nil, [][]queues.PodSet{{set(3, 0, 2)}}, []int{2}},
		"beside what runs":                       {[]*v1.Node{node("a", 4)}, []*v1.Pod{kubetest.Pod("p", "a", "nvidia.com/gpu", 2)}, [][]queues.PodSet{{set(4, 1, 1)}}, []int{2}},
		"not where a taint keeps them away":      {[]*v1.Node{node("a", 4, tainted), node("b", 1)}, nil, [][]queues.PodSet{{set(4, 1, 1)}}, []int{1}},
		"beside those that were asked about":     {[]*v1.Node{node("a", 4)}, nil, [][]queues.PodSet{{set(3, 0, 1)}, {set(3, 1, 1)}}, []int{3, 1}},
		"but not beside those that do not start": {[]*v1.Node{node("a", 4)}, nil, [][]queues.PodSet{{set(5, 0, 1)}, {set(4, 0, 1)}}, []int{4, 4}},
		"what each set needs comes first":        {[]*v1.Node{node("a", 4)}, nil, [][]queues.PodSet{{set(4, 1, 1), set(1, 0, 2)}, {set(1, 0, 1)}}, []int{3, 0}},
		"a gang within one rack": {
			[]*v1.Node{node("a", 2, rack("r1")), node("b", 2, rack("r2")), node("c", 2, rack("r2"))},
			nil,
			[][]queues.PodSet{{inRack(set(5, 5, 1))}, {inRack(set(4, 4, 1))}, {set(3, 1, 1)}},
			[]int{4, 4, 2},
		},
		"a set without room keeps the others out": {[]*v1.Node{node("a", 4)}, nil, [][]queues.PodSet{{set(1, 0, 1), set(1, 0, 4)}, {set(4, 0, 1)}}, []int{1, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := explain.NewCluster(c.nodes, c.pods)
			if err != nil {
				t.Fatal(err)
			}
			for k, sets := range c.asks {
				most := 0
				for _, s := range sets {
					most += s.Count
				}
				if got := cluster.Room(&queues.Suspended{Sets: sets}, most); got != c.want[k] {
					t.Errorf("ask %d: room for %d pods, want %d", k, got, c.want[k])
				}
			}
		})
	}
}
