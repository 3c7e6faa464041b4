package explain_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/kubetest"
)

func TestKeptNamesTheBudgetsThatForbidPreemption(t *testing.T) {
	nodes := []*v1.Node{gpuNode("n", "a", 2)}
	low := kubetest.Observed(kubetest.Pod("low", "n", api.ResourceGPU, 2), api.ResourceGPU, "GPU-n-0", "GPU-n-1")
	low.Labels["app"] = "train"
	budget := func(name, app string, allowed int32) policyv1.PodDisruptionBudget {
		return policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: low.Namespace, Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		}
	}
	berths := budget("berths", "train", 0)
	berths.Labels, berths.OwnerReferences = map[string]string{api.LabelManagedBy: "berth"}, []metav1.OwnerReference{{Kind: "InferenceService", Controller: new(true)}}
	budgets := []policyv1.PodDisruptionBudget{budget("open", "train", 1), budget("closed", "train", 0), budget("other", "web", 0), berths}
	priority := int32(10)
	high := waits([]any{api.ResourceGPU, 1}, func(p *v1.Pod) { p.Spec.Priority = &priority })
	on := trial(t, nodes, low)
	want := []string{"disruption budget " + low.Namespace + "/closed allows no disruption now, and so keeps pods of lower priority (1) from being preempted"}
	sentences := func(pod *v1.Pod) (out []string) {
		for _, b := range on.BlockingBudgets(pod, budgets) {
			out = append(out, b.String())
		}
		return out
	}
	if diff := cmp.Diff(want, sentences(high)); diff != "" {
		t.Errorf("Kept (-want +got):\n%s", diff)
	}
	if got := on.BlockingBudgets(waits([]any{api.ResourceGPU, 1}), budgets); len(got) > 0 {
		t.Errorf("of a pod of the same priority it says %v, want nothing", got)
	}
	never := v1.PreemptNever
	high.Spec.PreemptionPolicy = &never
	want = []string{"its preemptionPolicy is Never, so pods of lower priority (1) that hold GPUs keep them; use a PriorityClass that preempts"}
	if diff := cmp.Diff(want, sentences(high)); diff != "" {
		t.Errorf("a pod that preempts no other (-want +got):\n%s", diff)
	}
}
