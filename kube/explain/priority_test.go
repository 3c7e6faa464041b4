package explain_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

func class(name string, value int32, edits ...func(*schedulingv1.PriorityClass)) schedulingv1.PriorityClass {
	c := schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	for _, edit := range edits {
		edit(&c)
	}
	return c
}

// quota allows no more of a resource to pods of a PriorityClass; "" is to all pods.
func quota(class, resource string) v1.ResourceQuota {
	q := v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"}}
	q.Status.Hard = kubetest.Amounts(resource, 0)
	if class != "" {
		q.Spec.ScopeSelector = &v1.ScopeSelector{MatchExpressions: []v1.ScopedResourceSelectorRequirement{{
			ScopeName: v1.ResourceQuotaScopePriorityClass, Operator: v1.ScopeSelectorOpIn, Values: []string{class},
		}}}
	}
	return q
}

// TestHelpsKnowPriorityAndQuota: a PriorityClass that exists, preempts, and makes room is a
// help; one that a quota refuses, and any other help that a quota refuses, is not.
func TestHelpsKnowPriorityAndQuota(t *testing.T) {
	never := func(c *schedulingv1.PriorityClass) { policy := v1.PreemptNever; c.PreemptionPolicy = &policy }
	high := class("high", 1000)
	const helps = "use PriorityClass high (1000), which preempts pods of lower priority: it then fits on a-1 when they have ended"
	budget := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}
	for _, tt := range []struct {
		name string
		s    explain.Situation
		asks []any
		want string
	}{
		{"a class that preempts the holder", explain.Situation{Priorities: []schedulingv1.PriorityClass{class("higher", 2000), high}}, nil, helps},
		{"a class that preempts none", explain.Situation{Priorities: []schedulingv1.PriorityClass{class("polite", 1000, never)}}, nil, ""},
		{"a class that is not higher", explain.Situation{Priorities: []schedulingv1.PriorityClass{class("low", 0)}}, nil, ""},
		{"a class of Kubernetes", explain.Situation{Priorities: []schedulingv1.PriorityClass{class("system-node-critical", 2000001000)}}, nil, ""},
		{"a holder that a disruption budget keeps", explain.Situation{Priorities: []schedulingv1.PriorityClass{high}, Budgets: []policyv1.PodDisruptionBudget{budget}}, nil, ""},
		{"a quota that allows no pod of the class", explain.Situation{Priorities: []schedulingv1.PriorityClass{high}, Quotas: []v1.ResourceQuota{quota("high", "pods")}}, nil, ""},
		{"a quota of another class", explain.Situation{Priorities: []schedulingv1.PriorityClass{high}, Quotas: []v1.ResourceQuota{quota("other", "pods")}}, nil, helps},
		{"a pod that asks for more than the node has", explain.Situation{Priorities: []schedulingv1.PriorityClass{high}}, []any{api.ResourceGPU, 5}, ""},
		{"a resource that a quota refuses", explain.Situation{Quotas: []v1.ResourceQuota{quota("", "requests."+api.ResourceGPU)}}, []any{"nvidia.com/gpus", 1}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.asks == nil {
				tt.asks = []any{api.ResourceGPU, 1}
			}
			tt.s.Nodes = []*v1.Node{big("a-1")}
			tt.s.Pod = refused(tt.asks)
			held := 4
			if tt.asks[0] != api.ResourceGPU {
				held = 0
			}
			tt.s.Pods = []*v1.Pod{holds("h", "a-1", held, 1), tt.s.Pod}
			found, err := explain.Find(&tt.s, kubetest.Started)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, h := range found.Reliefs {
				got = append(got, h.String())
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("helps %q, want %q", got, tt.want)
			}
			if tt.want == helps && !strings.Contains(found.Reliefs[0].Command, `{"priorityClassName":"high"}`) {
				t.Errorf("its command is %s", found.Reliefs[0].Command)
			}
		})
	}
}
