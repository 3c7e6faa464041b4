package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/test/golden"
)

// rows: NB-14 NB-37 NB-39 NB-51 NB-66

// book is a notebook, changed by edits.
func book(namespace, name string, edits ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
		"metadata": map[string]any{"namespace": namespace, "name": name, "creationTimestamp": at(3 * time.Hour)},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": name, "image": "jupyter/scipy:v1"}},
		}}},
	}}
	for _, edit := range edits {
		edit(u)
	}
	return u
}

// at is a time so long before now.
func at(before time.Duration) string { return now.Add(-before).UTC().Format(time.RFC3339) }

// set sets a field to a value.
func set(value any, path ...string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			panic(err)
		}
	}
}

func annotated(name, value string) func(*unstructured.Unstructured) {
	return set(value, "metadata", "annotations", name)
}

// asks makes the notebook ask for something.
func asks(resource string, count string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		list, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		list[0].(map[string]any)["resources"] = map[string]any{"limits": map[string]any{resource: count}}
		set(list, "spec", "template", "spec", "containers")(u)
	}
}

// mounts makes the notebook mount a volume claim at the home folder.
func mounts(claim string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		set([]any{map[string]any{"name": "home", "persistentVolumeClaim": map[string]any{"claimName": claim}}}, "spec", "template", "spec", "volumes")(u)
		list, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		list[0].(map[string]any)["volumeMounts"] = []any{map[string]any{"name": "home", "mountPath": "/home/jovyan"}}
		set(list, "spec", "template", "spec", "containers")(u)
	}
}

// told sets the notebook's conditions GPUQueued and Ready.
func told(queued, place, reason, message string) func(*unstructured.Unstructured) {
	status := func(yes bool) string {
		if yes {
			return "True"
		}
		return "False"
	}
	return set([]any{
		map[string]any{"type": "GPUQueued", "status": status(queued == "Waiting"), "reason": queued, "message": place, "lastTransitionTime": at(4 * time.Minute)},
		map[string]any{"type": "Ready", "status": status(reason == "Ready"), "reason": reason, "message": message, "lastTransitionTime": at(4 * time.Minute)},
	}, "status", "conditions")
}

const gpuResource = api.ResourceGPU

// books are notebooks in every state.
func books() []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		book("research", "nb-ada", asks(gpuResource, "1"), told("Bound", "gpu-t4-1", "Ready", "on node gpu-t4-1"),
			annotated(api.AnnotationLastActivity, at(3*time.Hour)), annotated(api.AnnotationNotebookStopsAt, at(-8*time.Minute)),
			annotated(api.AnnotationNotebookProfile, "t4;image=pytorch"), annotated(api.AnnotationCreator, "ada")),
		book("research", "plain", told("NotAsked", "cpu-1", "Ready", "on node cpu-1"), annotated(api.AnnotationLastActivity, at(12*time.Minute))),
		book("research", "big", asks(gpuResource, "4"),
			told("Waiting", "2nd of 3 that wait for nvidia.com/gpu", "Queued", "waits for 4 nvidia.com/gpu, 2nd of 3 that wait for nvidia.com/gpu")),
		book("research", "off", asks(api.ResourceGPUMemory, "6"), mounts("off-workspace"), told("Stopped", "-", "Stopped", "stopped"),
			annotated(api.AnnotationStopped, at(time.Hour)), annotated(api.AnnotationNotebookStoppedFor, "idle for 1h")),
		book("vision", "slice", asks(api.ResourceMIGPrefix+"1g.5gb", "2"), told("Bound", "gpu-a100-2; change waits: 3 do not fit", "Ready", "on node gpu-a100-2")),
		book("vision", "foreign", set([]any{map[string]any{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}}, "status", "conditions")),
		book("vision", "foreign-gone", set([]any{map[string]any{"type": "Ready", "status": "True"}}, "status", "conditions")),
		book("vision", "foreign-ready", set([]any{map[string]any{"type": "Ready", "status": "True"}}, "status", "conditions"), set(int64(1), "status", "readyReplicas")),
		book("vision", "foreign-queued", set([]any{map[string]any{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}}, "status", "conditions")),
	}
}

// notebooks is a stage with a cluster and notebooks.
func notebooks(t testing.TB, list ...*unstructured.Unstructured) *stage {
	t.Helper()
	s := newStage(t, lab()...)
	for _, u := range list {
		if err := s.dynamic.Tracker().Create(kubeflow.Resource, u, u.GetNamespace()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	// The signal loop of package os/signal must not belong to the bubble.
	signal.Stop(func() chan os.Signal { c := make(chan os.Signal, 1); signal.Notify(c, os.Interrupt); return c }())
	synctest.Test(t, test)
}

func TestNotebookList(t *testing.T) {
	tests := []struct{ name, file, args string }{
		{"of a namespace", "notebooks.txt", "notebook list -n research"},
		{"of all, by an alias", "notebooks_all.txt", "nb ls -A"},
		{"with user, image and cause", "notebooks_wide.txt", "notebook list -n research -o wide"},
		{"as JSON", "notebooks.json", "notebook list -n research -o json"},
		{"why one waits", "notebook_why.txt", "notebook why -n research big"},
		{"why one that runs does", "notebook_why_ready.txt", "notebook why -n research nb-ada"},
		{"why one is stopped", "notebook_why_stopped.txt", "notebook why -n research off"},
		{"what a manifest is", "notebook_create.yaml", "notebook create ada -n research --gpus 2 --memory 16Gi --volume data:/data --node-selector a=b --dry-run=client -o yaml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			golden.File(t, tt.file, notebooks(t, books()...).ok(strings.Fields(tt.args)...))
		})
	}
}

func TestNotebookListSaysWhatItHas(t *testing.T) {
	s := notebooks(t, books()...)
	for args, want := range map[string]string{
		"notebook list -n research -o name":    "notebook.kubeflow.org/big\nnotebook.kubeflow.org/nb-ada\nnotebook.kubeflow.org/off\nnotebook.kubeflow.org/plain\n",
		"notebook list -A -l none=such":        "", // the stand-in knows no labels, but the command takes them
		"notebook why -n research -o name big": "notebook.kubeflow.org/big\n",
	} {
		if got := s.ok(strings.Fields(args)...); want != "" && got != want {
			t.Errorf("berth %s prints %q, want %q", args, got, want)
		}
	}
	_, stderr, code := s.run("berth", "notebook", "list")
	if code != 0 || !strings.Contains(stderr, "namespace default has no notebooks; -A shows those of all") {
		t.Errorf("exit code %d, want 0; stderr:\n%s", code, stderr)
	}
}

func TestNotebookCreateRefusesBadFlags(t *testing.T) {
	long := strings.Repeat("a", 53)
	for args, says := range map[string]string{
		"":                                "accepts 1 arg(s)",
		"Ada":                             `invalid name "Ada": must consist of lowercase letters`,
		"1st":                             "start with a letter",
		long:                              "has 53 characters, but a notebook name may have at most 52",
		"ada --gpus -1":                   "between 0 and 64",
		"ada --gpus 1 --mig 1g.5gb":       "set only one of them",
		"ada --mig 1g.5gb=none":           "or a profile and a count, as in 1g.5gb=2",
		"ada --mig a/b":                   "must be a profile",
		"ada --mig 9g.99gb":               "no known GPU has MIG devices of the profile 9g.99gb; the nearest is 7g.96gb",
		"ada --gpu-memory 900":            "no known GPU has that many GiB; the largest, ",
		"ada --cpu lots":                  "such as 500m, 4, or 16Gi",
		"ada --memory -1Gi":               "such as 500m, 4, or 16Gi",
		"ada --new-volume big":            "--new-volume \"big\"",
		"ada --volume A":                  "must be the name of a PersistentVolumeClaim",
		"ada --volume a:b":                "the path must be absolute, as in a:/data",
		"ada --volume a:/x --volume b:/x": "another volume is already mounted at /x",
		"ada --volume a --new-volume 1Gi": "--new-volume and --volume a are both mounted at /home/jovyan",
		"ada --dry-run=maybe":             "must be client or server",
		"ada --dry-run=client --wait":     "--wait cannot be used with --dry-run",
		"ada --timeout 5s":                "--timeout requires --wait",
		"ada -o jsonpath={}":              "must be yaml, json, or name",
	} {
		_, stderr, code := newStage(t).run(append([]string{"berth", "notebook", "create"}, strings.Fields(args)...)...)
		if code != 2 || !strings.Contains(stderr, says) {
			t.Errorf("berth notebook create %s: exit code %d, want 2; stderr lacks %q:\n%s", args, code, says, stderr)
		}
	}
}

func TestNotebookCreateMakesItAndItsVolume(t *testing.T) {
	s := notebooks(t)
	stdout, stderr, code := s.run("berth", "nb", "create", "ada", "--gpu-memory", "6", "--image", "jupyter/scipy", "--volume", "data:/data")
	if code != 0 || stdout != "notebook.kubeflow.org/ada created\n" {
		t.Fatalf("exit code %d, stdout %q: %s", code, stdout, stderr)
	}
	for _, want := range []string{
		"warning: image jupyter/scipy has no tag", "warning: namespace default has no PersistentVolumeClaim data: the notebook waits until it is created",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr)
		}
	}
	claim, err := s.client.CoreV1().PersistentVolumeClaims("default").Get(context.Background(), "ada-workspace", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if size := claim.Spec.Resources.Requests.Storage().String(); size != "10Gi" || claim.Labels[api.LabelNotebookVolume] != "ada" {
		t.Errorf("the claim has %s and labels %v, want 10Gi and the notebook's name", size, claim.Labels)
	}
	_, stderr, code = s.run("berth", "nb", "create", "ada")
	if code != 1 || !strings.Contains(stderr, "notebook default/ada already exists: Starting; choose another name, or `berth notebook delete ada`") {
		t.Errorf("a second time: exit code %d, want 1; stderr:\n%s", code, stderr)
	}
}

func TestNotebookStopAndStart(t *testing.T) { bubble(t, stopAndStart) }

func stopAndStart(t *testing.T) {
	s := notebooks(t, books()...)
	out := s.ok("notebook", "stop", "-n", "research", "nb-ada", "off")
	golden.File(t, "notebook_stop.txt", out)
	notes := func(name string) map[string]string {
		u, err := s.dynamic.Resource(kubeflow.Resource).Namespace("research").Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return u.GetAnnotations()
	}
	if got := notes("nb-ada"); got[api.AnnotationStopped] != now.Format(time.RFC3339) || got[api.AnnotationNotebookStopsAt] != "" {
		t.Errorf("annotations after stop are %v", got)
	}
	// Nobody runs it here: after it is started it keeps the status that it had.
	stdout, stderr, code := s.run("berth", "notebook", "start", "-n", "research", "off", "plain")
	if code != 0 || !strings.Contains(stderr, "no controller has processed it within 3s") {
		t.Errorf("exit code %d, want 0; stderr:\n%s", code, stderr)
	}
	golden.File(t, "notebook_start.txt", stdout)
	if got := notes("off"); got[api.AnnotationStopped] != "" || got[api.AnnotationNotebookStoppedFor] != "" {
		t.Errorf("annotations after start are %v", got)
	}
}

func TestNotebookDeleteKeepsVolumes(t *testing.T) {
	own := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "research", Name: "off-workspace", Labels: map[string]string{api.LabelNotebookVolume: "off"},
	}}
	for args, want := range map[string]string{
		"off":           "  kept  volume off-workspace; `kubectl delete pvc -n research off-workspace` deletes it\n",
		"off --volumes": "  lost  volume off-workspace and its data\n",
	} {
		s := notebooks(t, books()...)
		if _, err := s.client.CoreV1().PersistentVolumeClaims("research").Create(context.Background(), own, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		got := s.ok(append([]string{"notebook", "delete", "-n", "research"}, strings.Fields(args)...)...)
		if diff := cmp.Diff("notebook research/off deleted\n"+want, got); diff != "" {
			t.Errorf("delete %s differs (-want +got):\n%s", args, diff)
		}
		_, err := s.client.CoreV1().PersistentVolumeClaims("research").Get(context.Background(), "off-workspace", metav1.GetOptions{})
		if gone := apierrors.IsNotFound(err); gone != strings.Contains(args, "--volumes") {
			t.Errorf("delete %s: the volume is gone: %v", args, gone)
		}
	}
}

func TestNotebookErrors(t *testing.T) {
	group := schema.GroupResource{Group: "kubeflow.org", Resource: "notebooks"}
	noKind := apierrors.NewGenericServerResponse(404, "get", group, "", "404 page not found", 0, true)
	denied := apierrors.NewForbidden(group, "x", errors.New(`User "ada" cannot VERB resource "notebooks" in API group "kubeflow.org"`))
	tests := []struct {
		name, args, verb string
		err              error
		says             string
	}{
		{"one that is nearly there", "stop nb-aba -n research", "", nil, "there is no notebook nb-aba in namespace research; did you mean nb-ada?"},
		{"one of another namespace", "open nb-ada", "", nil, "there is one in namespace research: use -n research"},
		{"none of the kind here", "why zzz", "", nil, "in namespace default, which has none; `berth notebook create` creates one"},
		{"one of many", "why zzz -n research", "", nil, "existing notebooks: big, nb-ada, off, plain"},
		{"a stopped one is not opened", "open off -n research", "", nil, "is stopped: idle for 1h; `berth notebook start off` starts it"},
		{"no such kind", "list", "list", noKind, "this cluster does not serve notebooks; install `berth controller` or Kubeflow"},
		{"no such kind for one", "stop a", "get", noKind, "this cluster does not serve notebooks"},
		{"no right to list", "list", "list", denied, "an administrator can grant it with `kubectl create rolebinding notebooks -n default --clusterrole=berth-notebook-user --user=NAME`"},
		{"no right to make", "create a", "create", denied, "--clusterrole=berth-notebook-user"},
		{"no namespace", "create a -n nowhere", "create", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "nowhere"), "there is no namespace nowhere; `kubectl create namespace nowhere` creates it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := notebooks(t, books()...)
			if tt.err != nil {
				s.dynamic.PrependReactor(tt.verb, "notebooks", func(a clienttesting.Action) (bool, runtime.Object, error) {
					err := tt.err
					if errors.Is(err, denied) {
						err = apierrors.NewForbidden(group, "x", fmt.Errorf("User \"ada\" cannot %s resource \"notebooks\"", a.GetVerb()))
					}
					return true, nil, err
				})
			}
			_, stderr, code := s.run(append([]string{"berth", "notebook"}, strings.Fields(tt.args)...)...)
			if code != 1 || !strings.Contains(stderr, tt.says) {
				t.Errorf("exit code %d, want 1; stderr lacks %q:\n%s", code, tt.says, stderr)
			}
		})
	}
}
