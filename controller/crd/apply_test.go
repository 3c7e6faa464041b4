package crd

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
)

// TestOnlyWhatDiffersIsApplied applies a definition over what may be there.
func TestOnlyWhatDiffersIsApplied(t *testing.T) {
	list, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	ours := list[0]
	asStored := func(edit func(u *unstructured.Unstructured)) *unstructured.Unstructured {
		u := ours.DeepCopy()
		if err := stamp(u); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		stored := &unstructured.Unstructured{}
		if err := stored.UnmarshalJSON(raw); err != nil { // numbers as the API server's client reads them
			t.Fatal(err)
		}
		stored.SetUID("1")
		if err := unstructured.SetNestedField(stored.Object, "None", "spec", "conversion", "strategy"); err != nil {
			t.Fatal(err)
		}
		edit(stored)
		return stored
	}
	set := func(value any, path ...string) func(u *unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name  string
		there *unstructured.Unstructured
		want  bool
	}{
		{"none is there", nil, true},
		{"the same with the API server's additions", asStored(func(*unstructured.Unstructured) {}), false},
		{"somebody has changed a field", asStored(set("Cluster2", "spec", "scope")), true},
		{"somebody has taken a version out", asStored(set([]any{}, "spec", "versions")), true},
		{"another Berth wrote more than this one does", asStored(set("0", "metadata", "annotations", api.AnnotationDefinition)), true},
		{"it is of somebody else", asStored(set("x", "metadata", "labels", api.LabelManagedBy)), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var objects []runtime.Object
			if tt.there != nil {
				objects = append(objects, tt.there)
			}
			client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), objects...)
			applied := false
			client.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				applied = true
				return true, ours.DeepCopy(), nil
			})
			if _, err := apply(t.Context(), client, ours.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if applied != tt.want {
				t.Errorf("applied %v, want %v", applied, tt.want)
			}
		})
	}
}
