package proxy

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/internal/rights"
)

// ExporterRules returns the rights that Gauges need in api.MetricsNamespace, beside get of pods/proxy everywhere, to
// read the metrics of Berth's node agents, which name pods and are not for everyone.
// Without them nothing is known of how busy the GPUs of these nodes are.
func ExporterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rights.Named(rights.Rule("", "serviceaccounts/token", "create"), api.MetricsReader)}
}
