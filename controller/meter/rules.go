package meter

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/internal/rights"
)

// Rules returns the rights that a meter needs in the whole cluster. It only reads, but for how budgets stand.
func Rules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		rights.Rule("", "pods nodes namespaces", "list", "watch"),
		rights.Rule("berth.dev", "queues pricebooks", "list", "watch"),
		rights.Rule("", "pods/proxy", "get"), // exporters of GPUs
		rights.Rule("berth.dev", "queues/status", "patch"),
		rights.Rule("events.k8s.io", "events", "create"),
	}, runtime.OwnerRules()...) // the users of pods
}

// ProcessRules returns the rights that `berth meter` needs: also to ask who a client is and what that may read.
func ProcessRules() []rbacv1.PolicyRule {
	return append(Rules(), rights.Rule("authentication.k8s.io", "tokenreviews", "create"), rights.Rule("authorization.k8s.io", "subjectaccessreviews", "create"))
}
