package meter

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/internal/rights"
)

// Rules returns the rights that a meter needs in the whole cluster. It only reads.
func Rules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		rights.Rule("", "pods nodes namespaces", "list", "watch"),
		rights.Rule("berth.dev", "queues pricebooks", "list", "watch"),
		rights.Rule("", "pods/proxy", "get"), // exporters of GPUs
	}, runtime.OwnerRules()...) // the users of pods
}
