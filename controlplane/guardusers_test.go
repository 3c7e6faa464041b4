package controlplane

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"

	"berth.dev/berth/api"
	policies "berth.dev/berth/scheduler/admission"
)

// TestTheGuardWritesUsers sends writes of objects as the API server has them, of its own
// types and of others, through the guard. The tests of core/user have the rules themselves.
func TestTheGuardWritesUsers(t *testing.T) {
	const sets = "system:serviceaccount:kube-system:statefulset-controller"
	meta := func(user, of string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Name: "p", OwnerReferences: []metav1.OwnerReference{{Kind: "X", Name: "x", UID: types.UID("x"), Controller: new(true)}}}
		for name, value := range map[string]string{api.AnnotationUser: user, api.AnnotationUserOf: of} {
			if value != "" {
				metav1.SetMetaDataAnnotation(&m, name, value)
			}
		}
		return m
	}
	pod := func(user, of string) runtime.Object { return &core.Pod{ObjectMeta: meta(user, of)} }
	replicas := func(user string) runtime.Object { return &apps.ReplicaSet{ObjectMeta: meta(user, "")} }
	notebook := func(user string) runtime.Object {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": map[string]any{"name": "p"}}}
		if user != "" {
			u.SetAnnotations(map[string]string{api.AnnotationUser: user})
		}
		return u
	}
	binding := func(user string) runtime.Object {
		return &core.Binding{ObjectMeta: meta(user, "")}
	}
	pods, sub := schema.GroupVersionResource{Version: "v1", Resource: "pods"}, ""
	for _, tt := range []struct {
		name     string
		by       string
		resource schema.GroupVersionResource
		sub      string
		now, old runtime.Object
		user, of string // then
		refused  bool
	}{
		{"a pod", "ada", pods, sub, pod("", ""), nil, "ada", "", false},
		{"a pod of a controller", sets, pods, sub, pod("eve", ""), nil, sets, "x", false},
		{"a pod of a Notebook's own controller", controllerUser, pods, sub, pod("", ""), nil, controllerUser, "x", false},
		{"a pod of a configured controller", "operator", pods, sub, pod("", ""), nil, "operator", "x", false},
		{"a pod of a hub", "hub", pods, sub, pod("eve", ""), nil, "eve", "", false},
		{"a change by a person", "bob", pods, sub, pod("bob", ""), pod("ada", ""), "bob", "", true},
		{"a change of the status", "ada", pods, "status", pod("bob", ""), pod("ada", ""), "bob", "", true},
		{"a status that says nothing of it", "kubelet", pods, "status", pod("ada", ""), pod("ada", ""), "ada", "", false},
		{"a Notebook", "ada", schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "notebooks"}, sub, notebook("bob"), nil, "ada", "", false},
		{"a Notebook that is replaced", "bob", schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "notebooks"}, sub, notebook(""), notebook("ada"), "ada", "", false},
		{"a ReplicaSet", "system:serviceaccount:kube-system:deployment-controller", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, sub, replicas("ada"), nil, "ada", "", false},
		{"a ReplicaSet of a user", "bob", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, sub, replicas("ada"), nil, "bob", "", false},
		{"a kind that creates no pods", "bob", schema.GroupVersionResource{Version: "v1", Resource: "services"}, sub, &core.Service{ObjectMeta: meta("ada", "")}, nil, "ada", "", false},
		{"a binding", "scheduler", pods, "binding", binding(""), nil, "", "", false},
		{"a binding that names a user", "scheduler", pods, "binding", binding("ada"), nil, "ada", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			operation := admission.Create
			if tt.old != nil {
				operation = admission.Update
			}
			write := func(now runtime.Object) admission.Attributes {
				return admission.NewAttributesRecord(now, tt.old, schema.GroupVersionKind{}, "n", "p", tt.resource, tt.sub, operation, nil, false, &user.DefaultInfo{Name: tt.by})
			}
			off := newGuard("", false)
			if err := off.Validate(t.Context(), write(tt.now), nil); err != nil {
				t.Errorf("without users: %v", err)
			}
			g := newGuard("", false)
			g.users = policies.NewUsers([]string{"hub"}, []string{controllerUser, "operator"})
			now := tt.now.DeepCopyObject()
			if err := g.Admit(t.Context(), write(now), nil); err != nil {
				t.Fatal(err)
			}
			notes := now.(metav1.Object).GetAnnotations()
			if notes[api.AnnotationUser] != tt.user || notes[api.AnnotationUserOf] != tt.of {
				t.Errorf("it says %v, want user %q of %q", notes, tt.user, tt.of)
			}
			if err := g.Validate(t.Context(), write(now), nil); (err != nil) != tt.refused {
				t.Errorf("refused: %v, want %v", err, tt.refused)
			}
		})
	}
}
