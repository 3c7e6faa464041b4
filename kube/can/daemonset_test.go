package can_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/can"
)

func TestADaemonSetMakesAPodForEachNodeThatItSelectsAndTolerates(t *testing.T) {
	node := func(name, label string, taints ...v1.Taint) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": label}}, Spec: v1.NodeSpec{Taints: taints}}
	}
	gpu := v1.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: v1.TaintEffectNoSchedule}
	nodes := []*v1.Node{
		node("a", "gpu"), node("b", "gpu", gpu), node("c", "cpu"), node("d", "gpu", v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}),
		node("e", "gpu", v1.Taint{Key: v1.TaintNodeNetworkUnavailable, Effect: v1.TaintEffectNoSchedule}), node("f", "gpu", v1.Taint{Key: "soft", Effect: v1.TaintEffectPreferNoSchedule}),
	}
	for _, tt := range []struct {
		name string
		edit func(*v1.PodSpec)
		want string
	}{
		{"every node without taints that keep it off", func(*v1.PodSpec) {}, "[x-a x-c x-d x-f]"},
		{"those that it selects", func(s *v1.PodSpec) { s.NodeSelector = map[string]string{"pool": "gpu"} }, "[x-a x-d x-f]"},
		{"those that it tolerates", func(s *v1.PodSpec) { s.Tolerations = []v1.Toleration{{Key: gpu.Key, Operator: v1.TolerationOpExists}} }, "[x-a x-b x-c x-d x-f]"},
		{"with the network of the host also those without one for pods", func(s *v1.PodSpec) { s.HostNetwork = true }, "[x-a x-c x-d x-e x-f]"},
		{"none", func(s *v1.PodSpec) { s.NodeSelector = map[string]string{"pool": "no"} }, "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
			tt.edit(&pod.Spec)
			names := []string{}
			for _, p := range can.OnNodes(pod, nodes) {
				names = append(names, p.Name)
				field := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0]
				if "x-"+field.Values[0] != p.Name {
					t.Errorf("%s must run on %s", p.Name, field.Values)
				}
			}
			if fmt.Sprint(names) != tt.want || pod.Spec.Affinity != nil {
				t.Errorf("pods are %v, want %s; the template has %v", names, tt.want, pod.Spec.Affinity)
			}
		})
	}
}
