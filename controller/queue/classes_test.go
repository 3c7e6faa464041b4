package queue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/queues"
)

// class puts a PriorityClass there, or removes it.
func (s *stage) class(name string, there bool) {
	if there {
		s.count.Set(name, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 1000})
	} else {
		s.count.Set(name, (*schedulingv1.PriorityClass)(nil))
	}
}

// policy is the policy of default classes as the cluster has it; "" is none.
func (s *stage) policy() string {
	s.Helper()
	p, b := &admissionv1.MutatingAdmissionPolicy{}, &admissionv1.MutatingAdmissionPolicyBinding{}
	key := client.ObjectKey{Name: queues.DefaultClassesName}
	err, bound := s.client.Get(context.Background(), key, p), s.client.Get(context.Background(), key, b)
	if apierrors.IsNotFound(err) != apierrors.IsNotFound(bound) {
		s.Errorf("of the policy and its binding only one is there: %v, %v", err, bound)
	}
	if err != nil {
		return ""
	}
	for _, v := range p.Spec.Variables {
		if v.Name == "sets" {
			return v.Expression
		}
	}
	return "no classes"
}

// valid is the message of a queue's condition Valid; "" is that it holds.
func (s *stage) valid(name string) string {
	return meta.FindStatusCondition(s.status(name).Conditions, v1alpha1.QueueValid).Message
}

// rows: AS-63 AS-68
func TestDefaultClassesAreGivenAsQueuesSay(t *testing.T) {
	s := newStage(t, org()...)
	s.pass(time.Second)
	if got := s.policy(); got != "" {
		t.Fatalf("no queue names a class, and there is a policy: %s", got)
	}
	s.change("red", func(q *v1alpha1.QueueSpec) {
		q.DefaultPriorityClasses = &v1alpha1.QueuePriorityClasses{Notebook: "gpu-low", Serving: "system-node-critical"}
	})
	s.class("system-node-critical", true)
	s.pass(time.Second)
	missing := `spec.defaultPriorityClasses.notebook: there is no PriorityClass "gpu-low": pods get none by default until there is`
	system := "spec.defaultPriorityClasses.serving: system-node-critical is a PriorityClass of the system"
	if v := s.valid("red"); s.policy() != "" || !strings.Contains(v, missing) || !strings.Contains(v, system) {
		t.Errorf("of a class that is missing and one of the system there is a policy %q, and Valid is %q", s.policy(), v)
	}
	if a := meta.FindStatusCondition(s.status("red").Conditions, v1alpha1.QueueActive); a.Status != metav1.ConditionTrue {
		t.Errorf("the queue admits nothing: %s", a.Message)
	}
	s.class("gpu-low", true)
	s.pass(time.Second)
	if v := s.valid("red"); s.policy() != `[{"notebook": "gpu-low"}]` || strings.Contains(v, "gpu-low") || !strings.Contains(v, system) {
		t.Errorf("with the class the policy has %s, and Valid is %q", s.policy(), v)
	}
	s.class("gpu-low", false)
	s.pass(time.Second)
	if v := s.valid("red"); s.policy() != "" || !strings.Contains(v, missing) {
		t.Errorf("without the class again the policy has %s, and Valid is %q", s.policy(), v)
	}
}

func TestWhyPodsGetNoClassIsInTheStatus(t *testing.T) {
	s := newStage(t, org()...)
	s.class("gpu-low", true)
	s.change("red", func(q *v1alpha1.QueueSpec) {
		q.DefaultPriorityClasses = &v1alpha1.QueuePriorityClasses{Notebook: "gpu-low"}
	})
	resource := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"no policies are served", &meta.NoKindMatchError{}, "the API server serves no MutatingAdmissionPolicies"},
		{"the rights are missing", apierrors.NewForbidden(resource, queues.DefaultClassesName, nil), "grant them the ClusterRole berth-controller-default-classes"},
		{"something else fails", apierrors.NewInternalError(context.DeadlineExceeded), "pods get no class by default yet: Internal error"},
		{"nothing fails", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.refuses = tt.err
			s.pass(11 * time.Second)
			s.pass(time.Second)
			if v := s.valid("red"); (v == "") != (tt.want == "") || !strings.Contains(v, tt.want) {
				t.Errorf("Valid is %q, want %q in it", v, tt.want)
			}
			if v := s.valid("blue"); v != "" {
				t.Errorf("a queue that names no class is not valid: %q", v)
			}
		})
	}
	if got := s.policy(); got != `[{"notebook": "gpu-low"}]` {
		t.Errorf("the policy has %s in the end", got)
	}
}

// TestNotebooksGiveWayInTheOrderOfTheLine has two workloads wait for one idle notebook: the newer one
// names a WorkloadPriorityClass, and its pods have no more priority.
func TestNotebooksGiveWayInTheOrderOfTheLine(t *testing.T) {
	s := newStage(t, org()...)
	s.change("red", func(q *v1alpha1.QueueSpec) { q.IdleNotebooks = v1alpha1.IdleGiveWay })
	s.pod("red", "nb1", "node-1", notebook("nb1"))
	for _, name := range []string{"a", "b", "c"} {
		s.pod("blue", name, "node-1")
	}
	s.pod("red", "first", "")
	s.pod("red", "second", "", func(p *corev1.Pod) { p.Labels = map[string]string{api.LabelKueuePriority: "urgent"} })
	none := func(*corev1.Pod) bool { return false }
	for _, tt := range []struct {
		lines queues.LinePriorities
		want  string
	}{{nil, "p-first"}, {queues.LinePriorities{"urgent": 100}, "p-second"}, {queues.LinePriorities{"urgent": -1}, "p-first"}, {queues.LinePriorities{}, "p-first"}} {
		s.count.SetLines(tt.lines)
		s.pass(time.Second)
		if got := s.room.Ways([]*corev1.Pod{s.pods["nb1"]}, none)["p-nb1"].Workload; got != tt.want {
			t.Errorf("with %v the notebook gives way to %q, want %s", tt.lines, got, tt.want)
		}
	}
}
