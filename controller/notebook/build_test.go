package notebook_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/notebook"
	"berth.dev/berth/test/golden"
)

// rows: NB-16 NB-23

// TestChildren holds what is made of a Notebook to files that were compared with
// Kubeflow's contract by hand: names, labels, ports, environment, fsGroup.
func TestChildren(t *testing.T) {
	for _, test := range []struct {
		name string
		spec string
		edit func(*kubeflow.Notebook)
	}{
		{name: "plain", spec: `{"containers":[{"name":"nb","image":"jupyter/x:1"}]}`},
		{
			name: "full",
			spec: `{"containers":[{"name":"server","image":"x/y:1","workingDir":"/work","ports":[{"containerPort":8787}],"env":[{"name":"NB_PREFIX","value":"/mine"}],
				"resources":{"limits":{"nvidia.com/gpu":"2"}},"fieldOfTheFuture":{"deep":[1,"a",2.5]}},{"name":"side","image":"z:2"}],"securityContext":{},
				"volumes":[{"name":"home","persistentVolumeClaim":{"claimName":"claim-ada"}}]}`,
			edit: func(nb *kubeflow.Notebook) {
				nb.Labels = map[string]string{"app": "nb", "statefulset": "wrong"}
				nb.Annotations = map[string]string{
					"note": "kept", "kubectl.kubernetes.io/x": "dropped", "notebooks.kubeflow.org/server-type": "dropped", api.AnnotationStopped: "2026-11-21T09:00:00Z", api.AnnotationUser: "ada", api.AnnotationUserOf: "u",
				}
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			nb := notebookOf("nb", test.spec)
			nb.UID = "uid-of-nb"
			if test.edit != nil {
				test.edit(nb)
			}
			set, service, err := notebook.Children(nb, notebook.Options{FSGroup: true})
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent([]any{set, service}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.File(t, test.name+".json", string(got)+"\n")
		})
	}
}

func TestNotebooksOfWhichNoPodCanBeMade(t *testing.T) {
	for _, test := range []struct{ name, notebook, spec, want string }{
		{"no containers", "nb", `{}`, "spec.template.spec has no containers; a notebook needs one, with a name and an image"},
		{"nothing at all", "nb", ``, "spec.template.spec has no containers; a notebook needs one, with a name and an image"},
		{"a container that is none", "nb", `{"containers":["x"]}`, "invalid spec.template.spec.containers[0]: must be an object with a name and an image"},
		{"a wrong type", "nb", `{"containers":[{"name":"a","image":1}]}`, "invalid spec.template.spec: json: cannot unmarshal number"},
		{"a quantity that is none", "nb", `{"containers":[{"name":"a","image":"b","resources":{"limits":{"cpu":"much"}}}]}`, "invalid spec.template.spec: quantities must match"},
		{"a long name", strings.Repeat("a", 53), `{"containers":[{"name":"a","image":"b"}]}`, "the name has 53 characters, but a notebook name may have at most 52; choose a shorter one"},
	} {
		_, _, err := notebook.Children(notebookOf(test.notebook, test.spec), notebook.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// TestANotebookThatNamesANodeIsScheduledThere holds pods to the scheduler: one that a node
// rejects would be made again several times a second.
func TestANotebookThatNamesANodeIsScheduledThere(t *testing.T) {
	const here = `{"key":"metadata.name","operator":"In","values":["n1"]}`
	for _, test := range []struct{ name, spec, want string }{
		{"no affinity", `"nodeName":"n1"`, `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[` + here + `]}]}}}`},
		{
			"two terms, one of them empty", `"nodeName":"n1","affinity":{"podAffinity":{},"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
				{"matchExpressions":[{"key":"zone","operator":"Exists"}]},{}]}}}`,
			`{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
				{"matchExpressions":[{"key":"zone","operator":"Exists"}],"matchFields":[` + here + `]},{}]}},"podAffinity":{}}`,
		},
		{"an affinity that is none", `"affinity":{"nodeAffinity":{}}`, `{"nodeAffinity":{}}`},
		{"an empty name", `"nodeName":""`, `null`},
	} {
		set, _, err := notebook.Children(notebookOf("nb", `{"containers":[{"name":"nb","image":"x:1"}],`+test.spec+`}`), notebook.Options{})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		spec, _, _ := unstructured.NestedMap(set, "spec", "template", "spec")
		if node, _ := spec["nodeName"].(string); node != "" {
			t.Errorf("%s: its pod names node %s", test.name, node)
		}
		var want any
		if err := json.Unmarshal([]byte(test.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, spec["affinity"]); diff != "" {
			t.Errorf("%s: affinity differs (-want +got):\n%s", test.name, diff)
		}
	}
	if _, _, err := notebook.Children(notebookOf("nb", `{"containers":[{"name":"nb","image":"x:1"}],"nodeName":"n1","affinity":"near"}`), notebook.Options{}); err == nil {
		t.Error("an affinity that is a text is taken")
	}
}

// rows: NB-59

// TestNothingIsInjected: the pod has the containers, volumes and rights that the
// user wrote, and no others.
func TestNothingIsInjected(t *testing.T) {
	nb := notebookOf("nb", `{"containers":[{"name":"nb","image":"x:1"}],"initContainers":[{"name":"i","image":"y:1"}],"serviceAccountName":"sa","hostNetwork":true}`)
	set, _, err := notebook.Children(nb, notebook.Options{})
	if err != nil {
		t.Fatal(err)
	}
	spec, _, _ := unstructured.NestedMap(set, "spec", "template", "spec")
	keys := map[string]bool{}
	for k := range maps.Keys(spec) {
		keys[k] = true
	}
	if want := map[string]bool{"containers": true, "initContainers": true, "serviceAccountName": true, "hostNetwork": true}; !maps.Equal(keys, want) {
		t.Errorf("the pod's spec has %v, want what the user wrote: %v", keys, want)
	}
	if list := spec["containers"].([]any); len(list) != 1 {
		t.Errorf("the pod has %d containers, want 1", len(list))
	}
}

// TestVirtualService: one is made only with Istio, and only where its kind is there.
func TestVirtualService(t *testing.T) {
	nb := asking("nb", 0)
	nb.Annotations = map[string]string{api.AnnotationRewrite: "/", api.AnnotationHeaders: `{"X-RStudio-Root-Path":"/notebook/team-a/nb/"}`}
	got := notebook.VirtualService(nb, notebook.Options{Istio: true, IstioHost: "hub.example.com"}, schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "VirtualService"})
	raw, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "virtualservice.json", string(raw)+"\n")

	w := newWorld(t)
	w.o.Istio = true
	w.restart()
	w.apply(nb)
	w.settle()
	for _, write := range w.writes {
		if strings.Contains(write, "VirtualService") {
			t.Errorf("a cluster without Istio gets one: %q", w.writes)
		}
	}
	if _, owned := got["metadata"].(map[string]any)["ownerReferences"]; !owned {
		t.Error("the VirtualService has no owner")
	}
}
