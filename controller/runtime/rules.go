package runtime

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/controller/crd"
	"berth.dev/berth/internal/rights"
)

// RoleName is the name of the controllers' ClusterRole, and of their Role in the
// namespace of the lease.
const RoleName = "berth-controller"

// Rules returns the rights that the process and the controllers of kinds need in
// the whole cluster, and no more. deploy/controller.yaml grants the same.
func Rules(kinds ...Kind) []rbacv1.PolicyRule {
	var list []rbacv1.PolicyRule
	for _, k := range kinds {
		list = append(list, k.Rules...)
	}
	return append(list,
		// To report in which mode a kind is.
		rights.Rule("events.k8s.io", "events", "create", "patch"),
		// To find other controllers of the same kinds.
		rights.Rule("apps", "deployments", "list", "watch"),
		// To ask who requests metrics, and whether they are allowed to.
		rights.Rule("authentication.k8s.io", "tokenreviews", "create"),
		rights.Rule("authorization.k8s.io", "subjectaccessreviews", "create"),
	)
}

// DefinitionRules returns the rights that installing the definitions of the kinds
// needs. Without them an administrator must apply the output of
// `berth controller --print-definitions`.
func DefinitionRules() []rbacv1.PolicyRule {
	list := []rbacv1.PolicyRule{
		rights.Named(rights.Rule(crd.Resource.Group, crd.Resource.Resource, "get", "create", "patch"), crd.Names()...),
	}
	for i := range crd.Bundles {
		b := &crd.Bundles[i]
		list = append(list, rights.Named(rights.Rule(b.Resource.Group, b.Resource.Resource, "get", "create", "patch"), b.Names()...))
	}
	return list
}

// OwnRules returns the rights that the process needs in the namespace of the lease
// and of the record of modes, which both have that name. The API server knows no
// name when a lease is created, so create cannot be granted for one name only.
func OwnRules(name string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("coordination.k8s.io", "leases", "create"),
		rights.Named(rights.Rule("coordination.k8s.io", "leases", "get", "update"), name),
		rights.Named(rights.Rule("", "configmaps", "create", "patch"), name),
	}
}
