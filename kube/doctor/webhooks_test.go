package doctor_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/doctor"
)

func TestWebhooksThatNothingAnswers(t *testing.T) {
	rule := func(group, resource string, on ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Operations: on, Rule: admissionv1.Rule{APIGroups: []string{group}, Resources: []string{resource}}}}
	}
	hook := func(rules []admissionv1.RuleWithOperations, edit func(*admissionv1.ValidatingWebhook)) []*admissionv1.ValidatingWebhookConfiguration {
		w := admissionv1.ValidatingWebhook{Rules: rules, ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "kserve", Name: "webhook"}}}
		edit(&w)
		return []*admissionv1.ValidatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "inference"}, Webhooks: []admissionv1.ValidatingWebhook{w, w}}}
	}
	as := func(*admissionv1.ValidatingWebhook) {}
	const asks = "webhooks: validatingwebhookconfiguration inference asks Service kserve/webhook, which has no ready endpoint: "
	for _, tt := range []struct {
		name  string
		hooks []*admissionv1.ValidatingWebhookConfiguration
		want  string
	}{
		{"of new pods", hook(rule("", "pods", admissionv1.Create), as), "fail " + asks + "pods cannot be created"},
		{"of everything", hook(rule("*", "*", admissionv1.OperationAll), as), "fail " + asks + "pods cannot be created"},
		{"of pods in some namespaces", hook(rule("", "pods", admissionv1.Create), func(w *admissionv1.ValidatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}), "warn " + asks + "pods cannot be created where its selectors match"},
		{"of pods that change", hook(rule("", "pods", admissionv1.Update), as), "warn " + asks + "pods cannot be created or changed"},
		{"of another group's pods", hook(rule("metrics.k8s.io", "pods", admissionv1.Create), as), "warn " + asks + "pods cannot be created or changed"},
		{"of other objects", hook(rule("serving.kserve.io", "inferenceservices", admissionv1.Create), as), "warn " + asks + "inferenceservices cannot be created or changed"},
		{"one that may fail", hook(rule("", "pods", admissionv1.Create), func(w *admissionv1.ValidatingWebhook) { w.FailurePolicy = new(admissionv1.Ignore) }), ""},
		{"one outside of the cluster", hook(rule("", "pods", admissionv1.Create), func(w *admissionv1.ValidatingWebhook) {
			w.ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://hooks.example.com")}
		}), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, f := range doctor.Examine(doctor.Cluster{Unanswered: doctor.Webhooks(nil, tt.hooks)}) {
				if f.Name == "webhooks" {
					got = append(got, string(f.Status)+" "+f.Name+": "+f.Seen)
				}
			}
			if strings.Join(got, "\n") != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}
