package profile

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api/v1alpha1"
)

// MovingImages returns the images that a profile or one of its choices starts, and whose tag can mean another image tomorrow: "PROFILE: IMAGE",
// each once. A profile that cannot be made into a Notebook has none.
func MovingImages(p *v1alpha1.NotebookProfile) []string {
	var out []string
	look := func(choices map[string]string) {
		nb, _, _, err := Render(p, Choices{User: "user", Options: choices, Groups: everyGroup(p)})
		var pod corev1.PodSpec
		if err != nil || json.Unmarshal(nb.Spec.Template.Spec.Raw, &pod) != nil || len(pod.Containers) == 0 {
			return
		}
		image := pod.Containers[0].Image
		if text := p.Name + ": " + image; MovingTag(image) != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	look(nil)
	for _, o := range p.Spec.Options {
		for _, c := range o.Choices {
			look(map[string]string{o.Key: c.Key})
		}
	}
	return out
}

// everyGroup are the groups that a profile or one of its choices is for.
func everyGroup(p *v1alpha1.NotebookProfile) []string {
	out := slices.Clone(p.Spec.AllowedGroups)
	for _, o := range p.Spec.Options {
		for _, c := range o.Choices {
			out = append(out, c.AllowedGroups...)
		}
	}
	return out
}
