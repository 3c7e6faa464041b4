package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/test/golden"
)

const values = `singleuser:
  image: {name: base, tag: v1}
  profileList:
  - display_name: CPU only
    kubespawner_override: {cpu_guarantee: 1, cpu_limit: 2, mem_limit: 4G}
  - display_name: One T4
    allowed_groups: [staff]
    kubespawner_override:
      extra_resource_limits: {nvidia.com/gpu: "1"}
      node_selector: {nvidia.com/gpu.product: Tesla-T4}
    profile_options:
      image:
        choices:
          own: {}
          torch: {kubespawner_override: {image: "torch:1"}}
  - display_name: Half the cluster
    kubespawner_override: {extra_resource_limits: {nvidia.com/gpu: 8}}
  - display_name: An H100
    kubespawner_override: {extra_resource_limits: {nvidia.com/gpu: 1}, node_selector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
`

// hubStage is a stage whose nodes have CPU and memory, and a values file.
func hubStage(t testing.TB) (*stage, string) {
	t.Helper()
	objects := lab()
	for _, o := range objects {
		n, isNode := o.(*v1.Node)
		if !isNode {
			continue
		}
		for _, list := range []v1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
			list[v1.ResourceCPU], list[v1.ResourceMemory] = resource.MustParse("32"), resource.MustParse("128Gi")
		}
	}
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStage(t, objects...)
	// The fake knows no dry run; a server answers with the object and keeps nothing.
	s.dynamic.PrependReactor("*", "notebookprofiles", func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch a := a.(type) {
		case clienttesting.CreateActionImpl:
			return len(a.CreateOptions.DryRun) > 0, a.Object, nil
		case clienttesting.UpdateActionImpl:
			return len(a.UpdateOptions.DryRun) > 0, a.Object, nil
		}
		return false, nil, nil
	})
	return s, path
}

// rows: JH-28 JH-29 JH-40
func TestProfilesList(t *testing.T) {
	s, path := hubStage(t)
	if out := s.ok("profiles", "import", path); strings.Count(out, " imported\n") != 4 {
		t.Fatalf("import says:\n%s", out)
	}
	if out := s.ok("profiles", "import", path); strings.Count(out, " unchanged\n") != 4 {
		t.Errorf("a second import says:\n%s", out)
	}
	for file, args := range map[string]string{
		"profiles.txt": "profiles list", "profiles_wide.txt": "profiles ls -o wide", "profiles.json": "profile list -o json",
	} {
		golden.File(t, file, s.ok(strings.Fields(args)...))
	}
	if of := s.ok("profiles", "list", path); of != s.ok("profiles", "list") {
		t.Errorf("the list of the file differs from that of the cluster:\n%s", of)
	}
	if got := s.ok("profiles", "list", "-o", "name"); !strings.HasPrefix(got, "notebookprofile/cpu-only\n") {
		t.Errorf("names: %s", got)
	}
}

// TestProfilesListOfWhoMayNotSeeNodes: the profiles are told, and what nodes and pods
// would tell of them is a ?, not a no.
func TestProfilesListOfWhoMayNotSeeNodes(t *testing.T) {
	s, path := hubStage(t)
	s.ok("profiles", "import", path)
	s.client.(*fake.Clientset).PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	})
	golden.File(t, "profiles_hidden.txt", s.ok("profiles", "list"))
	got := s.ok("profiles", "list", "-o", "json")
	if !strings.Contains(got, `"startsNow": null`) || strings.Contains(got, `"startsNow": false`) || !strings.Contains(got, `"hidden": "you cannot list nodes`) {
		t.Errorf("as JSON it is\n%s", got)
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "berth.dev", Resource: "notebookprofiles"}, "", nil)
	s.dynamic.PrependReactor("list", "notebookprofiles", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	for _, args := range []string{"profiles list", "notebook create ada --profile one-t4 --for ada"} {
		_, stderr, code := s.run(append([]string{"berth"}, strings.Fields(args)...)...)
		if code != 1 || !strings.Contains(stderr, "--clusterrole=berth-profile-view --user=NAME`") {
			t.Errorf("berth %s: exit code %d; stderr lacks the role:\n%s", args, code, stderr)
		}
	}
}

// rows: NB-54

// TestNotebookOfAProfileIsWarnedOfItsImages: before anybody waits, of each image that
// it has, and also by what its environment requires.
func TestNotebookOfAProfileIsWarnedOfItsImages(t *testing.T) {
	s, path := hubStage(t)
	text := values + `  - display_name: Newer
    kubespawner_override:
      image: torch:1
      environment: {NVIDIA_REQUIRE_CUDA: cuda>=12.6}
      init_containers: [{name: copy, image: "copy:latest"}]
      extra_resource_limits: {nvidia.com/gpu: 1}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	node, err := s.client.CoreV1().Nodes().Get(t.Context(), "gpu-a100-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Labels["nvidia.com/cuda.runtime-version.full"] = "12.2"
	if _, err := s.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.ok("profiles", "import", path)
	_, stderr, code := s.run("berth", "notebook", "create", "ada", "--profile", "newer", "--for", "ada")
	for _, want := range []string{
		"warning: image copy:latest is whatever is newest when it starts; name a version",
		"warning: image torch:1 needs CUDA 12.6 (says NVIDIA_REQUIRE_CUDA), and the newest driver of the nodes that it may use gives 12.2; ",
	} {
		if code != 0 || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d; stderr lacks %q:\n%s", code, want, stderr)
		}
	}
}

func TestProfilesImportTellsWhatIsLeft(t *testing.T) {
	s, path := hubStage(t)
	s.ok("profiles", "import", path)
	less, _, _ := strings.Cut(values, "  - display_name: Half")
	if err := os.WriteFile(path, []byte(strings.Replace(less, "mem_limit: 4G", "mem_limit: 5G", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := s.run("berth", "profiles", "import", path)
	if code != 0 || stdout != "profile cpu-only changed\nprofile one-t4 unchanged\n" {
		t.Errorf("exit code %d, stdout:\n%s", code, stdout)
	}
	if !strings.Contains(stderr, "profile an-h100 was imported from values.yaml, which no longer has it; `kubectl delete notebookprofile an-h100`") {
		t.Errorf("stderr does not tell of what is not in the file now:\n%s", stderr)
	}
}

func TestProfilesFail(t *testing.T) {
	s, path := hubStage(t)
	bad := filepath.Join(filepath.Dir(path), "bad.yaml")
	if err := os.WriteFile(bad, []byte("profileList:\n- display_name: A\n  kubespawner_override: {namespace: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, args string
		code       int
		says       string
	}{
		{"no such file", "profiles lint none.yaml", 1, "none.yaml: no such file"},
		{"a lint with findings", "profiles lint " + bad, 3, "1 error, 0 warnings"},
		{"an import of nothing that is right", "profiles import " + bad, 1, "none of its profiles is valid"},
		{"a render without the group", "profiles render " + path + " --profile one-t4", 1, `no profile "one-t4": choose cpu-only, half-the-cluster, an-h100`},
		{"a choice that is not there", "profiles render " + path + " --profile one-t4 --group STAFF --option image=jax", 1, "option image=jax: choose own, torch"},
		{"a format of no render", "profiles render " + path + " -o table", 2, "must be yaml or json"},
		{"two profiles", "profiles render small --profile large", 2, "--profile requires a file"},
		{"a cluster without profiles", "profiles list", 1, "has no profiles; `berth profiles import values.yaml` imports"},
		{"a word that is none", "profiles lst", 2, `did you mean "list"?`},
		{"a lint without a file", "profiles lint", 2, "accepts 1 arg"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, stderr, code := s.run(append([]string{"berth"}, strings.Fields(tt.args)...)...)
			if code != tt.code || !strings.Contains(stderr, tt.says) {
				t.Errorf("exit code %d, want %d; stderr lacks %q:\n%s", code, tt.code, tt.says, stderr)
			}
		})
	}
}

func TestProfilesRenderAsJSONIsOneObject(t *testing.T) {
	s, path := hubStage(t)
	out := s.ok("profiles", "render", path, "--group", "staff", "--profile", "one-t4", "--option", "image=torch", "-o", "json", "-n", "lab")
	for _, want := range []string{`"kind": "List"`, `"kind": "Notebook"`, `"kind": "PersistentVolumeClaim"`, `"image": "torch:1"`, `"namespace": "lab"`} {
		if !strings.Contains(out, want) {
			t.Errorf("render -o json lacks %s:\n%s", want, out)
		}
	}
	if strings.Contains(out, `"status"`) {
		t.Error("render shows a status")
	}
}
