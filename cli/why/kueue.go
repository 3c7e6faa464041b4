package why

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	reasons "berth.dev/berth/core/explain"
)

// kueueWorkloads are the Workloads by which Kueue admits Jobs and pods, in both of its
// versions that are in use.
var kueueWorkloads = []schema.GroupVersionResource{
	{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"},
	{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "workloads"},
}

// admission is what Kueue says of the object of a kind and name, if it has not admitted it;
// zero if there is no such Workload, or it may not be read.
func (e *explainer) admission(ctx context.Context, kind, name string) reasons.Refusal {
	for _, resource := range kueueWorkloads {
		list, err := e.notebooks.Client.Resource(resource).Namespace(e.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range list.Items {
			for _, owner := range list.Items[i].GetOwnerReferences() {
				if kindOf(owner.Kind) == kind && owner.Name == name {
					return unadmitted(&list.Items[i])
				}
			}
		}
	}
	return reasons.Refusal{}
}

// unadmitted is the condition of a Workload that says why it is not admitted.
func unadmitted(w *unstructured.Unstructured) reasons.Refusal {
	list, _, _ := unstructured.NestedSlice(w.Object, "status", "conditions")
	out := reasons.Refusal{}
	for _, of := range []string{"Admitted", "QuotaReserved"} {
		for i := range list {
			c, ok := list[i].(map[string]any)
			if !ok || c["type"] != of || c["status"] != "False" {
				continue
			}
			out.Reason, _ = c["reason"].(string)
			out.Message, _ = c["message"].(string)
		}
	}
	return out
}
