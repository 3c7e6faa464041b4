package fleet

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// domain ends the names of Services.
const domain = ".svc.cluster.local"

// Resolve returns the addresses of a name for a pod of a namespace, as the cluster's DNS would, and the name in full: of a Service, or of a pod by its host name
// and its headless Service. Names are completed by the search path of pods. There are none if the name is unknown.
func (f *Fleet) Resolve(ctx context.Context, namespace, name string) (full string, ips []string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	for _, search := range []string{"." + namespace + domain, domain, ".cluster.local", ""} {
		rest, ok := strings.CutSuffix(name+search, domain)
		parts := strings.Split(rest, ".")
		if !ok || len(parts) < 2 || len(parts) > 3 {
			continue
		}
		host := ""
		if len(parts) == 3 {
			host, parts = parts[0], parts[1:]
		}
		if ips = f.addresses(ctx, parts[1], parts[0], host); len(ips) > 0 {
			return name + search, ips
		}
	}
	return "", nil
}

// addresses returns the addresses of a Service, or of its pod with a host name.
func (f *Fleet) addresses(ctx context.Context, namespace, service, host string) []string {
	s, err := f.client.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil // there is none, or it cannot be read now: the name is unknown either way
	case s.Spec.ClusterIP != v1.ClusterIPNone:
		if host != "" || s.Spec.ClusterIP == "" {
			return nil
		}
		return []string{s.Spec.ClusterIP}
	case len(s.Spec.Selector) == 0:
		return nil
	}
	selector := labels.SelectorFromSet(s.Spec.Selector)
	var out []string
	for _, n := range f.sorted() {
		n.mu.Lock()
		for _, p := range n.chosen(namespace, "") {
			ready := s.Spec.PublishNotReadyAddresses || p.ready
			named := host == "" || p.api.Spec.Subdomain == service && cmp.Or(p.api.Spec.Hostname, p.api.Name) == host
			if p.ip != "" && !p.finished && ready && named && selector.Matches(labels.Set(p.api.Labels)) {
				out = append(out, p.ip)
			}
		}
		n.mu.Unlock()
	}
	slices.Sort(out)
	return out
}
