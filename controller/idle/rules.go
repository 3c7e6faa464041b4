package idle

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/internal/rights"
)

// ProxiedRules returns the rights that the loop needs in the whole cluster to reach
// notebooks through the API server: see Options.Proxied.
func ProxiedRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rights.Rule("", "services/proxy", "get")}
}

// ExporterRules returns the rights that the loop needs in api.MetricsNamespace to
// read the metrics of Berth's node agents, which name pods and are not for everyone.
// Without them it does not know whether the GPUs of notebooks are idle.
func ExporterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rights.Named(rights.Rule("", "serviceaccounts/token", "create"), api.MetricsReader)}
}
