package fleet

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// loopbacks gives pods whose processes run on this machine addresses of its loopback network, from
// 127.70.0.1 on. A pod that is created again under its name has the same address, which others may
// have been told. It is safe for concurrent use.
type loopbacks struct {
	mu   sync.Mutex
	pods map[string]string // address by namespace and name
}

// of returns the address of a pod.
func (l *loopbacks) of(namespace, name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := namespace + "/" + name
	if at, ok := l.pods[key]; ok {
		return at
	}
	n := len(l.pods) + 1
	at := fmt.Sprintf("127.%d.%d.%d", 70+n>>16&127, n>>8&255, n&255)
	if l.pods == nil {
		l.pods = map[string]string{}
	}
	l.pods[key] = at
	return at
}

// Names of hosts in a value: all of it, or before a port, as in HOST:23456 and in the list of TF_CONFIG.
var (
	onlyHost = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
	hostPort = regexp.MustCompile(`\b[a-z0-9][a-z0-9.-]*:[0-9]+\b`)
)

// localNames replaces in the environment of a process the names of headless Services by addresses of this machine: its resolver
// does not know the cluster's names. The processes of the pods behind them may listen there. Other names stay.
func (f *Fleet) localNames(namespace string, env []string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	known := map[string]string{}
	resolve := func(name string) string {
		if _, asked := known[name]; !asked {
			known[name] = f.resolve(ctx, namespace, name)
		}
		return known[name]
	}
	out := slices.Clone(env)
	for i, kv := range env {
		key, value, _ := strings.Cut(kv, "=")
		if onlyHost.MatchString(value) {
			if at := resolve(value); at != "" {
				out[i] = key + "=" + at
			}
			continue
		}
		out[i] = key + "=" + hostPort.ReplaceAllStringFunc(value, func(text string) string {
			name, port, _ := strings.Cut(text, ":")
			if at := resolve(name); at != "" {
				return at + ":" + port
			}
			return text
		})
	}
	return out
}

// resolve returns the address on this machine of the first pod by name behind the name of a headless Service, as a pod of the
// namespace would resolve it; "" is that no Service has the name.
func (f *Fleet) resolve(ctx context.Context, namespace, name string) string {
	for _, n := range readings(namespace, name) {
		s, err := f.client.CoreV1().Services(n.namespace).Get(ctx, n.service, metav1.GetOptions{})
		if err != nil || s.Spec.ClusterIP != v1.ClusterIPNone || len(s.Spec.Selector) == 0 {
			continue
		}
		list, err := f.client.CoreV1().Pods(n.namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(s.Spec.Selector).String()})
		if err != nil {
			continue
		}
		var pods []string
		for i := range list.Items {
			p := &list.Items[i]
			named := n.host == "" || p.Spec.Hostname == n.host && p.Spec.Subdomain == n.service
			if named && !terminal(p.Status.Phase) {
				pods = append(pods, p.Name)
			}
		}
		if len(pods) > 0 {
			return f.loopbacks.of(n.namespace, slices.Min(pods))
		}
	}
	return ""
}

// serviceName is a name of DNS, read as that of a Service, or with a host as that of one pod behind it.
type serviceName struct{ host, service, namespace string }

// readings returns what a name can mean in a pod of a namespace, in the order in which its search domains are tried.
//
// Source: the DNS specification of Kubernetes (the page DNS-Based Service Discovery of kubernetes/dns), and search domains NAMESPACE.svc.cluster.local,
// svc.cluster.local, and cluster.local.
func readings(namespace, name string) []serviceName {
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(name, "."), ".cluster.local"), ".")
	last := len(parts) - 1
	whole := parts[last] == "svc" && last > 0
	if whole {
		parts = parts[:last]
	}
	if slices.ContainsFunc(parts, func(p string) bool { return p == "" || p[0] < 'a' }) {
		return nil // numbers and addresses: names of Services begin with a letter, and those of hosts here with that of a job
	}
	switch {
	case len(parts) == 1 && !whole:
		return []serviceName{{"", parts[0], namespace}}
	case len(parts) == 2 && !whole:
		return []serviceName{{parts[0], parts[1], namespace}, {"", parts[0], parts[1]}}
	case len(parts) == 2:
		return []serviceName{{"", parts[0], parts[1]}}
	case len(parts) == 3:
		return []serviceName{{parts[0], parts[1], parts[2]}}
	}
	return nil
}
