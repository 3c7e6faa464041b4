package user

import "strings"

// serviceAccounts begins the API server's name of each service account:
// system:serviceaccount:NAMESPACE:NAME.
const serviceAccounts = "system:serviceaccount:"

// CountedAs returns the name under which limits count a user: the user itself, and of a service
// account the group of all in its namespace, system:serviceaccounts:NAMESPACE. A user who may
// create pods in a namespace may, as a rule, also create service accounts in it, and would have
// a new limit with each.
//
// Source: k8s.io/apiserver, pkg/authentication/serviceaccount.
func CountedAs(name string) string {
	namespace, account, ok := strings.Cut(strings.TrimPrefix(name, serviceAccounts), ":")
	if !ok || !strings.HasPrefix(name, serviceAccounts) || namespace == "" || account == "" {
		return name
	}
	return "system:serviceaccounts:" + namespace
}

// IsProgram reports whether a name is of a program: the API server keeps names that begin with
// "system:" for its own, controllers, kubelets, and service accounts.
func IsProgram(name string) bool { return strings.HasPrefix(name, "system:") }
