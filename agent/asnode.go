package agent

import (
	"log/slog"
	"net/http"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// asNode reads as the node that the agent runs on, and writes as the agent itself.
//
// An API server of Kubernetes 1.36 lets a pod impersonate its own node for the verbs
// that it is granted (KEP-5284), and its node authorizer gives a node its own pods
// alone. Older ones refuse: then the agent reads as itself, where it may. What worked
// last is tried first, so an upgrade is noticed when the wider rights are taken away.
type asNode struct {
	node string
	next http.RoundTripper
	log  *slog.Logger

	itself  atomic.Bool // the agent itself may read, and its node may not
	refused atomic.Bool // neither may
}

// RoundTrip sends a request, and a read that is forbidden once more under the other
// name.
func (a *asNode) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return a.next.RoundTrip(r)
	}
	itself := a.itself.Load()
	first, err := a.as(itself, r)
	if err != nil || first.StatusCode != http.StatusForbidden {
		a.allowed(err)
		return first, err
	}
	second, err := a.as(!itself, r)
	if err != nil {
		return first, nil //nolint:nilerr // the first answer is one
	}
	if second.StatusCode == http.StatusForbidden {
		if !a.refused.Swap(true) {
			a.log.Warn("the API server lets the agent read neither as its node nor as itself; apply this version's deploy/agent.yaml, and for Kubernetes older than 1.36 also deploy/agent-older.yaml", "path", r.URL.Path)
		}
		if itself { // what the node lacks is what is to be granted
			first, second = second, first
		}
		_ = second.Body.Close()
		return first, nil
	}
	_ = first.Body.Close()
	a.itself.Store(!itself)
	a.allowed(nil)
	if itself {
		a.log.Info("the agent reads as its node, so it sees only its own pods", "node", a.node)
	} else {
		a.log.Warn("the API server does not let the agent read as its node, so it reads as itself and can read every pod of the cluster; with Kubernetes 1.36 or newer, deploy/agent.yaml is enough", "node", a.node)
	}
	return second, nil
}

func (a *asNode) allowed(err error) {
	if err == nil {
		a.refused.Store(false)
	}
}

// as sends a read as the agent itself, or as its node.
func (a *asNode) as(itself bool, r *http.Request) (*http.Response, error) {
	if !itself {
		r = r.Clone(r.Context())
		r.Header.Set(authenticationv1.ImpersonateUserHeader, "system:node:"+a.node)
	}
	return a.next.RoundTrip(r)
}

// WrappedRoundTripper returns what asNode sends with.
func (a *asNode) WrappedRoundTripper() http.RoundTripper { return a.next }
