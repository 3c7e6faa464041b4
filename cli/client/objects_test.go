package client_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/cli/client"
)

func TestAFileIsReadAsKubectlReadsIt(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want map[string]any // spec
	}{
		"yes, on, and off are truth values":      {"kind: A\nspec: {a: yes, b: on, c: off, d: 'yes'}\n", map[string]any{"a": true, "b": true, "c": false, "d": "yes"}},
		"numbers stay numbers":                   {"kind: A\nspec: {a: 1, b: 1.5, c: \"1\"}\n", map[string]any{"a": int64(1), "b": 1.5, "c": "1"}},
		"JSON may have tabs":                     {"{\n\t\"kind\": \"A\",\n\t\"spec\": {\"a\": 1}\n}\n", map[string]any{"a": int64(1)}},
		"an anchor is what it stands for":        {"kind: A\nx: &x {a: 1}\nspec: *x\n", map[string]any{"a": int64(1)}},
		"an object is found behind empty ones":   {"---\n# nothing\n---\nkind: A\nspec: {a: 1}\n---\n", map[string]any{"a": int64(1)}},
		"an object of a list is one of the file": {"kind: List\napiVersion: v1\nitems:\n- {kind: A, apiVersion: v1, spec: {a: yes}}\n", map[string]any{"a": true}},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := client.Objects("a.yaml", strings.NewReader(tt.text))
			if err != nil || len(list) != 1 {
				t.Fatalf("%d objects, error %v", len(list), err)
			}
			got, _, _ := unstructured.NestedMap(list[0].Object, "spec")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFileThatIsWrongIsRefusedWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"kind: A\n---\nkind: B\n  x: y\n": "a.yaml:4",
		"kind: A\n---\n- 1\n":             "a.yaml:3",
		"a: 1\n":                          "a.yaml:1: not an object of Kubernetes",
	} {
		if _, err := client.Objects("a.yaml", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}
