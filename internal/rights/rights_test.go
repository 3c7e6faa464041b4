package rights_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/internal/rights"
)

func TestMissingNamesWhatIsNotAllowed(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		r := review.Spec.ResourceAttributes
		review.Status.Allowed = r.Verb == "get" && r.Name != "two" && r.Subresource == ""
		return true, review, nil
	})
	rules := []rbacv1.PolicyRule{
		rights.Rule("", "nodes pods/proxy", "get", "list"),
		rights.Named(rights.Rule("coordination.k8s.io", "leases", "get"), "one", "two"),
	}
	for _, tt := range []struct {
		name, namespace string
		want            []string
	}{
		{"in the whole cluster", "", []string{"list nodes", "get pods/proxy", "list pods/proxy", "get leases.coordination.k8s.io two"}},
		{"in a namespace", "n", []string{"list nodes in n", "get pods/proxy in n", "list pods/proxy in n", "get leases.coordination.k8s.io two in n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := rights.Missing(t.Context(), client, tt.namespace, rules)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMissingSaysThatItCouldNotAsk(t *testing.T) {
	client := fake.NewClientset()
	down := errors.New("connection refused")
	client.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, down })
	if _, err := rights.Missing(t.Context(), client, "", []rbacv1.PolicyRule{rights.Rule("", "nodes", "get")}); !errors.Is(err, down) {
		t.Errorf("error %v, want the cause", err)
	}
}

func TestWhoAmI(t *testing.T) {
	synctest.Test(t, testWhoAmI) // it asks again after half a second
}

func testWhoAmI(t *testing.T) {
	client, answers := fake.NewClientset(), []error{apierrors.NewServiceUnavailable("it starts"), nil}
	client.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := answers[0]
		answers = answers[1:]
		review := &authenticationv1.SelfSubjectReview{}
		review.Status.UserInfo.Username = "me"
		return true, review, err
	})
	if got, err := rights.WhoAmI(t.Context(), client); got != "me" || err != nil {
		t.Errorf("WhoAmI = %q, %v; want me, although the API server was starting", got, err)
	}
	answers = []error{apierrors.NewForbidden(schema.GroupResource{Resource: "selfsubjectreviews"}, "", errors.New("no"))}
	if _, err := rights.WhoAmI(context.Background(), client); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("WhoAmI where it is refused = %v, want that at once", err)
	}
}
