package admission_test

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	generic "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/fake"

	"berth.dev/berth/scheduler/admission"
)

func TestOnlyTheLeaderBinds(t *testing.T) {
	policy, _ := admission.Leader(types.NamespacedName{Namespace: "kube-system", Name: "l"})
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	with := plugincel.OptionalVariableDeclarations{HasParams: true}
	holds := compiler.CompileCondition([]plugincel.ExpressionAccessor{
		expression{text: policy.Spec.MatchConditions[0].Expression, returns: cel.BoolType}, expression{text: policy.Spec.Validations[0].Expression, returns: cel.BoolType},
	}, with, environment.StoredExpressions)
	long := strings.Repeat("h", 112)
	for _, tt := range []struct {
		name, manager string
		holder        *string
		refused       bool
	}{
		{"the leader", admission.Signature("host-1_a"), new("host-1_a"), false},
		{"the one before", admission.Signature("host-1_a"), new("host-2_b"), true},
		{"one whose name begins the same", admission.Signature("host-1_a"), new("host-1_ab"), true},
		{"after the lease was released", admission.Signature("host-1_a"), nil, true},
		{"one without an election", "", new("host-2_b"), false},
		{"another client", "kubectl-create", new("host-2_b"), false},
		{"a name as long as may be", admission.Signature(long), new("host-2_b"), true},
		{"a name that is too long", admission.Signature(long + "h"), new("host-2_b"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: v1.ObjectReference{Kind: "Node", Name: "n"}}
			kind, gvr := schema.GroupVersionKind{Version: "v1", Kind: "Binding"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
			attr := generic.NewAttributesRecord(binding, nil, kind, "default", "p", gvr, "binding", generic.Create, &metav1.CreateOptions{FieldManager: tt.manager}, false, nil)
			versioned := &generic.VersionedAttributes{Attributes: attr, VersionedObject: binding, VersionedKind: kind}
			request := plugincel.CreateAdmissionRequest(attr, metav1.GroupVersionResource(gvr), metav1.GroupVersionKind(kind))
			lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: tt.holder}}
			got, _, err := holds.ForInput(compiler.CreateContext(t.Context()), versioned, request, plugincel.OptionalVariableBindings{VersionedParams: lease}, nil, 10_000_000)
			if err != nil {
				t.Fatal(err)
			}
			if got[0].Error != nil {
				t.Fatal(got[0].Error)
			}
			if refused := got[0].EvalResult.Value() == true && (got[1].Error != nil || got[1].EvalResult.Value() != true); refused != tt.refused {
				t.Errorf("refused: %v, want %v (%v)", refused, tt.refused, got[1].Error)
			}
		})
	}
}

func TestApplyLeaderFollowsTheLease(t *testing.T) {
	client := fake.NewClientset()
	for _, name := range []string{"a", "a", "b"} {
		if err := admission.ApplyLeader(t.Context(), client, types.NamespacedName{Namespace: "kube-system", Name: name}); err != nil {
			t.Fatal(err)
		}
		b, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), admission.LeaderName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Spec.ParamRef.Name; got != name {
			t.Errorf("the binding names lease %s, want %s", got, name)
		}
	}
}
