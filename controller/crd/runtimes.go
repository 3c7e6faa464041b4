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
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api"
	"berth.dev/berth/api/trainer"
)

//go:embed runtimes/*.yaml
var runtimeFiles embed.FS

// Runtimes returns the training runtimes that come with the definitions, sorted by name. They are the caller's to change.
func Runtimes() ([]*unstructured.Unstructured, error) {
	entries, err := runtimeFiles.ReadDir("runtimes")
	if err != nil {
		return nil, err
	}
	var list []*unstructured.Unstructured
	for _, e := range entries {
		text, err := runtimeFiles.ReadFile("runtimes/" + e.Name())
		if err != nil {
			return nil, err
		}
		raw, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("training runtime %s: %w", e.Name(), err)
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw, &u.Object); err != nil {
			return nil, fmt.Errorf("training runtime %s: %w", e.Name(), err)
		}
		list = append(list, u)
	}
	return list, nil
}

// RuntimeNames are the names of the training runtimes, sorted.
func RuntimeNames() []string {
	list, err := Runtimes()
	if err != nil {
		panic(err) // the files are in the program, and tested
	}
	var names []string
	for _, u := range list {
		names = append(names, u.GetName())
	}
	return names
}

// installRuntimes brings the training runtimes to a cluster where Berth serves their kind. One that is there without Berth's label is left
// alone. If this identity may not write them, they stay as they were applied.
func installRuntimes(ctx context.Context, client dynamic.Interface, done []Installed) error {
	kind := trainer.ClusterRuntimes.Resource + "." + trainer.Group
	if !slices.ContainsFunc(done, func(d Installed) bool { return d.Name == kind && !d.Foreign }) {
		return nil
	}
	list, err := Runtimes()
	if err != nil {
		return err
	}
	runtimes := client.Resource(trainer.ClusterRuntimes)
	for _, u := range list {
		there, err := runtimes.Get(ctx, u.GetName(), metav1.GetOptions{})
		switch {
		case err == nil && (there.GetLabels()[api.LabelManagedBy] != managed || covers(u.Object, there.Object)):
			continue
		case err == nil || apierrors.IsNotFound(err):
			_, err = runtimes.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
		}
		if err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("install training runtime %s: %w", u.GetName(), err)
		}
	}
	return nil
}
