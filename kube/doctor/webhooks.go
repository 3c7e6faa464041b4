package doctor

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/finding"
)

// Webhook is an admission webhook without whose answer the API server refuses objects.
type Webhook struct {
	Kind, Configuration string // of the object that registers it
	Namespace, Service  string // that answers it
	Pods                bool   // it is asked when pods are created
	Resources           []string
	Selects             bool        // only in some namespaces, or for some objects
	CA                  Certificate // the last that the API server trusts it by; zero is that none is in the configuration
}

// Webhooks returns the webhooks of a cluster that a Service answers and whose failurePolicy is Fail, by configuration and service, each
// pair once.
func Webhooks(mutating []*admissionv1.MutatingWebhookConfiguration, validating []*admissionv1.ValidatingWebhookConfiguration) []Webhook {
	var out []Webhook
	add := func(kind, name string, c *admissionv1.WebhookClientConfig, policy *admissionv1.FailurePolicyType, rules []admissionv1.RuleWithOperations, selectors ...*metav1.LabelSelector) {
		if c.Service == nil || policy != nil && *policy == admissionv1.Ignore {
			return
		}
		w := Webhook{Kind: kind, Configuration: name, Namespace: c.Service.Namespace, Service: c.Service.Name, CA: lastOf(c.CABundle)}
		for _, s := range selectors {
			w.Selects = w.Selects || s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
		}
		for i := range rules {
			w.Pods = w.Pods || asksAboutNewPods(&rules[i])
			w.Resources = append(w.Resources, rules[i].Resources...)
		}
		if i := slices.IndexFunc(out, func(o Webhook) bool {
			return o.Kind == w.Kind && o.Configuration == w.Configuration && o.Namespace == w.Namespace && o.Service == w.Service
		}); i >= 0 {
			o := &out[i]
			o.Resources, o.Selects = append(o.Resources, w.Resources...), o.Selects && w.Selects
			o.Pods = o.Pods || w.Pods
			return
		}
		out = append(out, w)
	}
	for _, m := range mutating {
		for i := range m.Webhooks {
			w := &m.Webhooks[i]
			add("mutatingwebhookconfiguration", m.Name, &w.ClientConfig, w.FailurePolicy, w.Rules, w.NamespaceSelector, w.ObjectSelector)
		}
	}
	for _, v := range validating {
		for i := range v.Webhooks {
			w := &v.Webhooks[i]
			add("validatingwebhookconfiguration", v.Name, &w.ClientConfig, w.FailurePolicy, w.Rules, w.NamespaceSelector, w.ObjectSelector)
		}
	}
	for i := range out {
		slices.Sort(out[i].Resources)
		out[i].Resources = slices.Compact(out[i].Resources)
	}
	slices.SortFunc(out, func(a, b Webhook) int { return strings.Compare(a.Kind+" "+a.Configuration, b.Kind+" "+b.Configuration) })
	return out
}

// asksAboutNewPods reports whether a rule has its webhook asked when a pod is created.
func asksAboutNewPods(r *admissionv1.RuleWithOperations) bool {
	creates := slices.Contains(r.Operations, admissionv1.Create) || slices.Contains(r.Operations, admissionv1.OperationAll)
	core := slices.Contains(r.APIGroups, "") || slices.Contains(r.APIGroups, "*")
	pods := slices.ContainsFunc(r.Resources, func(of string) bool { return of == "pods" || of == "*" || of == "*/*" })
	return creates && core && pods
}

// webhooks finds admission webhooks that nothing answers.
func (e *examined) webhooks() []finding.Finding {
	var out []finding.Finding
	for _, w := range e.Unanswered {
		what := "pods cannot be created"
		if !w.Pods {
			what = strings.Join(w.Resources, ", ") + " cannot be created or changed"
		}
		if w.Selects {
			what += " where its selectors match"
		}
		seen := fmt.Sprintf("%s %s asks Service %s/%s, which has no ready endpoint: %s", w.Kind, w.Configuration, w.Namespace, w.Service, what)
		do := fmt.Sprintf("see kubectl get pods -n %s; if the program was uninstalled, kubectl delete %s %s", w.Namespace, w.Kind, w.Configuration)
		if w.Pods && !w.Selects {
			out = append(out, fail("webhooks", seen, do))
		} else {
			out = append(out, warn("webhooks", seen, do))
		}
	}
	return out
}
