package explain_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

// TestTheCommandOfAHelp: what makes the change is changed, each kind as the API server
// lets it.
func TestTheCommandOfAHelp(t *testing.T) {
	const containers = `"containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":"2"},"requests":{"nvidia.com/gpu":"2"}}}]`
	for _, tt := range []struct {
		name string
		pod  *v1.Pod
		want string
	}{
		{
			"a pod is made again", waits([]any{api.ResourceGPU, 4}),
			`kubectl get pod waits -n ns -o json | kubectl patch --local -f - -p '{"spec":{` + containers + `}}' -o json | kubectl replace --force -f -`,
		},
		{
			"a Job too, without its selector", kubetest.Controlled(waits([]any{api.ResourceGPU, 4}), "Job", "train"),
			`kubectl get job train -n ns -o json | kubectl patch --local -f - -p '{"spec":{"selector":null,"template":{"metadata":{"labels":{"controller-uid":null,"batch.kubernetes.io/controller-uid":null}},"spec":{` +
				containers + `}}}}' -o json | kubectl replace --force -f -`,
		},
		{
			"a StatefulSet's template, and the pod that waits", kubetest.Controlled(waits([]any{api.ResourceGPU, 4}), "StatefulSet", "set"),
			`kubectl patch statefulset set -n ns -p '{"spec":{"template":{"spec":{` + containers + `}}}}' && kubectl delete pod waits -n ns`,
		},
		{"none is known for other kinds", kubetest.Controlled(waits([]any{api.ResourceGPU, 4}), "RayCluster", "ray"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			on := trial(t, []*v1.Node{kubetest.Inventory("two", kubetest.A100s("two", 2), "cpu", 8, "pods", 10, api.ResourceGPU, 2)})
			if got := on.Reliefs(tt.pod); len(got) != 1 || got[0].Command != tt.want {
				t.Errorf("reliefs %+v\nwant the command %s", got, tt.want)
			}
		})
	}
}

// TestAdminsAreToldWhatTheyCanDo: a node that passes every other check is named with the
// command that opens it, and one that lacks more is not.
func TestAdminsAreToldWhatTheyCanDo(t *testing.T) {
	taint := func(n *v1.Node) {
		n.Spec.Taints = []v1.Taint{{Key: "team", Value: "x", Effect: v1.TaintEffectNoSchedule}}
	}
	full := big("d", cordon)
	s := explain.Situation{
		Pod: refused([]any{api.ResourceGPU, 4}, selectorOf("pool", "a")), Nodes: []*v1.Node{
			big("a", cordon, func(n *v1.Node) { n.Labels["pool"] = "a" }), big("b", taint, func(n *v1.Node) { n.Labels["pool"] = "a" }), big("c"), full,
		},
		Pods: []*v1.Pod{holds("h", "d", 4, 1)},
	}
	f, err := explain.Find(&s, kubetest.Started)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range f.Reliefs {
		if r.Admin {
			got = append(got, r.Command)
		}
	}
	want := []string{"kubectl uncordon a", "kubectl taint nodes b team=x:NoSchedule-", "kubectl label node c pool=a --overwrite"}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("commands for administrators are %q, want %q", got, want)
	}
}

// TestAPatchLeavesTheRestAlone: only what changes is in the patch.
func TestAPatchLeavesTheRestAlone(t *testing.T) {
	before := waits([]any{api.ResourceGPU, 1})
	before.Spec.NodeSelector = map[string]string{"a": "b", "c": "d"}
	before.ObjectMeta.OwnerReferences = []metav1.OwnerReference{}
	after := before.DeepCopy()
	after.Spec.NodeSelector = map[string]string{"a": "e", "c": "d"}
	if got, err := explain.PatchOf(before, after); err != nil || got != `{"nodeSelector":{"a":"e"}}` {
		t.Errorf("patch %s, error %v", got, err)
	}
	if got, err := explain.PatchOf(before, before); err != nil || got != "" {
		t.Errorf("patch of what does not change: %q, error %v", got, err)
	}
}
