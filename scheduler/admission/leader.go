package admission

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// LeaderName is the name of the policy of Leader and of its binding.
const LeaderName = "berth-leader"

// LeaderMessage is what a binding gets that Leader refuses.
const LeaderMessage = "the scheduler that sent this binding no longer leads, so its devices may be another pod's by now: the scheduler that leads binds the pod"

// signs begins the field manager of a binding that names its sender. A field manager has at most longest characters.
const (
	signs   = "berth-scheduler/"
	longest = 128
)

// Signature is the field manager by which the bindings of a scheduler name the holder of its lease; it is "" for a holder whose name is too long.
func Signature(holder string) string {
	if len(signs)+len(holder) > longest {
		return ""
	}
	return signs + holder
}

// Leader makes the admission policy that refuses bindings with the Signature of a scheduler that does not hold the lease now, and its
// binding. A request may be under way for longer than a lease lasts, such as in the buffers of a node whose network is away: its sender
// then cannot take it back, and the next leader has given its devices to another pod. Bindings without a Signature pass.
func Leader(lease types.NamespacedName) (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	policy := newPolicy(LeaderName, admissionv1.Fail, rule([]admissionv1.OperationType{admissionv1.Create}, "pods/binding", "bindings"))
	policy.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	policy.Spec.MatchConditions = []admissionv1.MatchCondition{{
		Name:       "names-its-sender",
		Expression: fmt.Sprintf("has(request.options.fieldManager) && request.options.fieldManager.startsWith('%s')", signs),
	}}
	policy.Spec.Validations = []admissionv1.Validation{{
		Expression: fmt.Sprintf("has(params.spec.holderIdentity) && request.options.fieldManager == '%s' + params.spec.holderIdentity", signs),
		Message:    LeaderMessage,
		Reason:     new(metav1.StatusReasonForbidden),
	}}
	binding := newBinding(LeaderName, admissionv1.Deny)
	binding.Spec.ParamRef = &admissionv1.ParamRef{Namespace: lease.Namespace, Name: lease.Name, ParameterNotFoundAction: new(admissionv1.AllowAction)}
	return policy, binding
}

// ApplyLeader creates or updates the policy of Leader and its binding, which names another lease after a scheduler was told to use another.
func ApplyLeader(ctx context.Context, client kubernetes.Interface, lease types.NamespacedName) error {
	policy, binding := Leader(lease)
	admits := client.AdmissionregistrationV1()
	bindings := admits.ValidatingAdmissionPolicyBindings()
	err := put(ctx, admits.ValidatingAdmissionPolicies(), bindings, policy, binding)
	if err == nil {
		var was *admissionv1.ValidatingAdmissionPolicyBinding
		was, err = bindings.Get(ctx, LeaderName, metav1.GetOptions{})
		if err == nil && !equality.Semantic.DeepEqual(was.Spec.ParamRef, binding.Spec.ParamRef) {
			was.Spec.ParamRef = binding.Spec.ParamRef
			_, err = bindings.Update(ctx, was, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("keep bindings to the scheduler that leads: %w", err)
	}
	return nil
}

// RefusedByLeader reports whether an error is the refusal of Leader.
func RefusedByLeader(err error) bool {
	return err != nil && strings.Contains(err.Error(), LeaderMessage)
}
