package idle

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/internal/rights"
)

// ProxiedRules returns the rights that the loop needs in the whole cluster to reach
// notebooks through the API server: see Options.Proxied.
func ProxiedRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rights.Rule("", "services/proxy", "get")}
}
