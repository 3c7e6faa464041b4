package profile_test

import (
	"encoding/json"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/profile"
)

func TestMovingImagesAreThoseOfTheProfileAndOfItsChoices(t *testing.T) {
	choice := func(key, image string) v1alpha1.ProfileChoice {
		return v1alpha1.ProfileChoice{Key: key, Override: json.RawMessage(`{"image":"` + image + `"}`)}
	}
	p := &v1alpha1.NotebookProfile{ObjectMeta: metav1.ObjectMeta{Name: "lab"}, Spec: v1alpha1.NotebookProfileSpec{
		DisplayName: "Lab", Slug: "lab", AllowedGroups: []string{"ml"}, Base: json.RawMessage(`{}`), Override: json.RawMessage(`{"image":"team/base:2026-11"}`),
		Options: []v1alpha1.ProfileOption{{Key: "image", Choices: []v1alpha1.ProfileChoice{choice("fixed", "team/torch:2.9"), choice("moving", "team/torch:latest"), choice("bare", "team/torch"), choice("again", "team/torch:latest")}}},
	}}
	if got, want := profile.MovingImages(p), []string{"lab: team/torch:latest", "lab: team/torch"}; !slices.Equal(got, want) {
		t.Errorf("images are %q, want %q", got, want)
	}
	p.Spec.Options = nil
	if got := profile.MovingImages(p); len(got) != 0 {
		t.Errorf("of a profile with a fixed tag: %q", got)
	}
}
