package crd

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/api/trainer"
)

//go:embed runtimes/*.yaml servingruntimes/*.yaml
var runtimeFiles embed.FS

// Bundle is objects that come with the definition of their kind.
type Bundle struct {
	Resource schema.GroupVersionResource
	folder   string
}

// Bundles are the runtimes that come with the definitions: those that train, and those that serve models.
var Bundles = []Bundle{{trainer.ClusterRuntimes, "runtimes"}, {kserve.ClusterRuntimes, "servingruntimes"}}

// Objects returns the objects of a bundle, sorted by name. They are the caller's to change.
func (b *Bundle) Objects() ([]*unstructured.Unstructured, error) {
	entries, err := runtimeFiles.ReadDir(b.folder)
	if err != nil {
		return nil, err
	}
	var list []*unstructured.Unstructured
	for _, e := range entries {
		text, err := runtimeFiles.ReadFile(b.folder + "/" + e.Name())
		if err != nil {
			return nil, err
		}
		raw, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("runtime %s: %w", e.Name(), err)
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw, &u.Object); err != nil {
			return nil, fmt.Errorf("runtime %s: %w", e.Name(), err)
		}
		list = append(list, u)
	}
	return list, nil
}

// Names are the names of the objects of a bundle, sorted.
func (b *Bundle) Names() []string {
	list, err := b.Objects()
	if err != nil {
		panic(err) // the files are in the program, and tested
	}
	var names []string
	for _, u := range list {
		names = append(names, u.GetName())
	}
	return names
}

// install brings the objects of a bundle to a cluster where Berth serves their kind. One that is there without Berth's label is left
// alone. If this identity may not write them, they stay as they were applied.
func (b *Bundle) install(ctx context.Context, client dynamic.Interface, done []Installed) error {
	kind := b.Resource.GroupResource().String()
	if !slices.ContainsFunc(done, func(d Installed) bool { return d.Name == kind && !d.Foreign }) {
		return nil
	}
	list, err := b.Objects()
	if err != nil {
		return err
	}
	runtimes := client.Resource(b.Resource)
	for _, u := range list {
		there, err := runtimes.Get(ctx, u.GetName(), metav1.GetOptions{})
		switch {
		case err == nil && (there.GetLabels()[api.LabelManagedBy] != managed || covers(u.Object, there.Object)):
			continue
		case err == nil || apierrors.IsNotFound(err):
			_, err = runtimes.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
		}
		if err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("install runtime %s: %w", u.GetName(), err)
		}
	}
	return nil
}
