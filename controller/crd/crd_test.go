package crd_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/crd"
)

// definitions reads the definitions as the API server does.
func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	list, err := crd.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, u := range list {
		raw, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal(raw, d); err != nil {
			t.Fatal(err)
		}
		out[d.Name] = d
	}
	return out
}

// TestDefinitionsAreValid asks the API server's own check, which compiles the rules
// and estimates what they cost.
func TestDefinitionsAreValid(t *testing.T) {
	all := definitions(t)
	for name, d := range all {
		if d.Labels[api.LabelManagedBy] != "berth" {
			t.Errorf("%s lacks the label that says that it is Berth's", name)
		}
		apiextensionsv1.SetDefaults_CustomResourceDefinition(d)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&d.Spec)
		in := &apiextensions.CustomResourceDefinition{}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(d, in, nil); err != nil {
			t.Fatal(err)
		}
		for _, err := range validation.ValidateCustomResourceDefinition(t.Context(), in) {
			if err.Field != "status.storedVersions" { // the API server fills it in
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if want := []string{
		"clusterservingruntimes.serving.kserve.io", "clustertrainingruntimes.trainer.kubeflow.org", "inferenceservices.serving.kserve.io", "notebookprofiles.berth.dev", "notebooks.kubeflow.org", "pricebooks.berth.dev",
		"pytorchjobs.kubeflow.org", "queues.berth.dev", "servingruntimes.serving.kserve.io",
		"tfjobs.kubeflow.org", "trainingruntimes.trainer.kubeflow.org", "trainjobs.trainer.kubeflow.org",
	}; !slices.Equal(crd.Names(), want) || len(all) != len(want) {
		t.Errorf("definitions %v, want %v", crd.Names(), want)
	}
}

func TestTheSchemasOfRuntimesAreOne(t *testing.T) {
	all := definitions(t)
	if diff := cmp.Diff(all["clustertrainingruntimes.trainer.kubeflow.org"].Spec.Versions, all["trainingruntimes.trainer.kubeflow.org"].Spec.Versions); diff != "" {
		t.Errorf("a TrainingRuntime is not like a ClusterTrainingRuntime:\n%s", diff)
	}
}

func TestTheVersionsOfNotebookAreOne(t *testing.T) {
	d := definitions(t)["notebooks.kubeflow.org"]
	var names []string
	for i := range d.Spec.Versions {
		v := d.Spec.Versions[i]
		if names = append(names, v.Name); v.Storage != (i == 0) || !v.Served {
			t.Errorf("version %s: served %v, stored %v", v.Name, v.Served, v.Storage)
		}
		first := *d.Spec.Versions[0].DeepCopy()
		first.Name, first.Storage = v.Name, v.Storage
		if diff := cmp.Diff(first, v); diff != "" {
			t.Errorf("version %s is not like the first:\n%s", v.Name, diff)
		}
	}
	if !slices.Equal(names, kubeflow.Versions) || d.Spec.Group != kubeflow.Group || d.Spec.Names.Kind != kubeflow.Kind || d.Spec.Names.Plural != kubeflow.Resource.Resource {
		t.Errorf("versions %v of %s.%s, want those of package kubeflow", names, d.Spec.Names.Plural, d.Spec.Group)
	}
}
