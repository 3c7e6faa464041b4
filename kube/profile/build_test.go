package profile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/profile"
)

// read reads a file of testdata.
func read(t testing.TB, name string) *profile.File {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := profile.Read(name, raw)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// objects returns the profiles of a file as objects that have been to the API server
// and back, as far as JSON changes them.
func objects(t testing.TB, f *profile.File) []v1alpha1.NotebookProfile {
	t.Helper()
	var out []v1alpha1.NotebookProfile
	for i := range f.Profiles {
		raw, err := json.Marshal(&f.Profiles[i].NotebookProfile)
		if err != nil {
			t.Fatal(err)
		}
		var p v1alpha1.NotebookProfile
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// one reads a file whose text is a section singleuser, and gives its first profile.
func one(t testing.TB, section string) *v1alpha1.NotebookProfile {
	t.Helper()
	f, err := profile.Read("values.yaml", []byte("singleuser:\n  image: {name: base, tag: v1}\n"+indent(section)))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Profiles) == 0 {
		t.Fatalf("no profile was read: %v", f.Findings)
	}
	return &objects(t, f)[0]
}

// indent puts two blanks before each line.
func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// podOf returns the pod of a notebook.
func podOf(t testing.TB, nb *kubeflow.Notebook) *corev1.PodSpec {
	t.Helper()
	var pod corev1.PodSpec
	if err := json.Unmarshal(nb.Spec.Template.Spec.Raw, &pod); err != nil {
		t.Fatal(err)
	}
	return &pod
}

// asYAML writes objects as documents of one file.
func asYAML(t testing.TB, list ...any) string {
	t.Helper()
	var docs []string
	for _, v := range list {
		raw, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(raw))
	}
	return strings.Join(docs, "---\n")
}

// readRaw returns the bytes of a file of testdata.
func readRaw(name string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata", name)) }
