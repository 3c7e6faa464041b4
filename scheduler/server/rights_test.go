package server

import (
	"context"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestCheckRightsNamesWhatIsMissing(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		r := review.Spec.ResourceAttributes
		no := r.Resource == "pods" && r.Subresource == "binding" || r.Resource == "leases" && r.Verb == "update"
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: !no}}, nil
	})
	lease := DefaultLease()
	err := checkRights(t.Context(), client, "me", &lease)
	want := "me cannot create pods/binding, update leases.coordination.k8s.io berth-scheduler in kube-system; grant it the roles in deploy/scheduler.yaml"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := checkRights(context.WithoutCancel(t.Context()), client, "me", nil); err == nil || strings.Contains(err.Error(), "leases") {
		t.Errorf("a scheduler alone needs no lease: %v", err)
	}
}

func TestRulesAreNotTwice(t *testing.T) {
	var seen []string
	for _, r := range Rules() {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				s := verb + " " + resource + "." + r.APIGroups[0]
				if slices.Contains(seen, s) {
					t.Errorf("%s is asked for twice", s)
				}
				seen = append(seen, s)
			}
		}
	}
}
