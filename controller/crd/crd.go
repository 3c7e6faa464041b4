// Package crd holds the CustomResourceDefinitions of the kinds that Berth serves,
// and brings them to a cluster. It does not change those that others have installed:
// Kubeflow's own Notebook stays as it is.
package crd

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api"
)

//go:embed *.yaml
var files embed.FS

// FieldManager is whose fields the API server takes what Install writes for.
const FieldManager = "berth"

// managed is the value of label api.LabelManagedBy on our definitions.
const managed = "berth"

// Resource is customresourcedefinitions, as the API server names them.
var Resource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"} //nolint:gochecknoglobals // a constant

// Definitions returns the definitions, in the order of their names. They are the
// caller's to change.
func Definitions() ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var list []*unstructured.Unstructured
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		raw, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("definition %s: %w", name, err)
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw, &u.Object); err != nil {
			return nil, fmt.Errorf("definition %s: %w", name, err)
		}
		list = append(list, u)
	}
	return list, nil
}

// Text is the definitions as YAML, for kubectl apply.
func Text() (string, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return "", err
	}
	var all []string
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		all = append(all, string(text))
	}
	return strings.Join(all, "---\n"), nil
}

// Names are the names of the definitions, sorted.
func Names() []string {
	list, err := Definitions()
	if err != nil {
		panic(err) // the files are in the program, and tested
	}
	var names []string
	for _, u := range list {
		names = append(names, u.GetName())
	}
	return names
}

// Installed says what became of a definition.
type Installed struct {
	Name    string // such as notebooks.kubeflow.org
	Foreign bool   // it was there and is not Berth's to change: nothing was
}

// patience is how long definitions may take to be served: as long as an API server
// may take to start, which on a slow machine does much else at that time.
const patience = 2 * time.Minute

// Install brings the definitions to a cluster by server-side apply, and returns
// when the API server serves and lists them. One that is there without Berth's
// label is left alone, and so is any that this identity may not
// write. With the definitions come the runtimes of Bundles. The result has the order of Definitions.
func Install(ctx context.Context, cfg *rest.Config) ([]Installed, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the API server did not serve them within %s", patience))
	defer cancel()
	list, err := Definitions()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for definitions: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for discovery: %w", err)
	}
	var done []Installed
	for _, u := range list {
		foreign, err := apply(ctx, client, u)
		if apierrors.IsForbidden(err) && listed(disco, u) {
			foreign, err = true, nil // someone with permission has installed it
		}
		if err != nil {
			return nil, fmt.Errorf("install definition %s: %w", u.GetName(), err)
		}
		done = append(done, Installed{u.GetName(), foreign})
	}
	for i, u := range list {
		group, plural, versions := served(u)
		if done[i].Foreign {
			versions = versions[:1]
		}
		if err := await(ctx, disco, group, plural, versions); err != nil {
			return nil, fmt.Errorf("install definition %s: %w", u.GetName(), err)
		}
	}
	for i := range Bundles {
		if err := Bundles[i].install(ctx, client, done); err != nil {
			return done, err
		}
	}
	return done, nil
}

// apply writes a definition unless a foreign one is there, or just this one: the
// API server takes a tenth of a second of CPU to apply one that changes nothing.
func apply(ctx context.Context, client dynamic.Interface, u *unstructured.Unstructured) (foreign bool, err error) {
	crds := client.Resource(Resource)
	there, err := crds.Get(ctx, u.GetName(), metav1.GetOptions{})
	switch {
	case err == nil && there.GetLabels()[api.LabelManagedBy] != managed:
		_, _, now := served(there)
		if _, _, want := served(u); !slices.Contains(now, want[0]) {
			return true, fmt.Errorf("it exists, does not belong to Berth, and does not serve %s: update it, or delete it", want[0])
		}
		return true, nil
	case err != nil && !apierrors.IsNotFound(err):
		return false, err
	}
	if err := stamp(u); err != nil {
		return false, err
	}
	if there != nil && covers(u.Object, there.Object) {
		return false, nil
	}
	_, err = crds.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	return false, err
}

// stamp notes on a definition what it says, so one of which something was
// taken out is told from it.
func stamp(u *unstructured.Unstructured) error {
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("write definition %s: %w", u.GetName(), err)
	}
	h := fnv.New64a()
	h.Write(raw)
	notes := u.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	notes[api.AnnotationDefinition] = strconv.FormatUint(h.Sum64(), 16)
	u.SetAnnotations(notes)
	return nil
}

// covers reports whether has, as JSON, is all that want says: what the API server has
// added to objects is left out of the comparison.
func covers(want, has any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := has.(map[string]any)
		for k, v := range w {
			if ok = ok && covers(v, h[k]); !ok {
				return false
			}
		}
		return ok
	case []any:
		h, ok := has.([]any)
		return ok && slices.EqualFunc(w, h, covers)
	}
	return fmt.Sprint(want) == fmt.Sprint(has) // 1 may be an int64 or a float64
}

// listed reports whether the API server lists the stored version of a definition.
func listed(client discovery.DiscoveryInterface, u *unstructured.Unstructured) bool {
	group, plural, versions := served(u)
	got, err := client.ServerResourcesForGroupVersion(group + "/" + versions[0])
	return err == nil && has(got, plural)
}

// has reports whether a resource is in a list of the API server's.
func has(list *metav1.APIResourceList, plural string) bool {
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural })
}

// lookAgain is how often it is looked whether a definition is served.
const lookAgain = 10 * time.Millisecond

// await returns when the API server lists a resource in each of versions.
func await(ctx context.Context, client discovery.DiscoveryInterface, group, plural string, versions []string) error {
	for len(versions) > 0 {
		got, err := client.ServerResourcesForGroupVersion(group + "/" + versions[0])
		switch {
		case err == nil && has(got, plural):
			versions = versions[1:]
			continue
		case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsServiceUnavailable(err):
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(lookAgain):
		}
	}
	return nil
}

// served returns the group, the plural name and the served versions of a definition.
func served(u *unstructured.Unstructured) (group, plural string, versions []string) {
	group, _, _ = unstructured.NestedString(u.Object, "spec", "group")
	plural, _, _ = unstructured.NestedString(u.Object, "spec", "names", "plural")
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	for _, v := range list {
		if v, ok := v.(map[string]any); ok && v["served"] == true {
			name, _ := v["name"].(string)
			versions = append(versions, name)
		}
	}
	return group, plural, versions
}
