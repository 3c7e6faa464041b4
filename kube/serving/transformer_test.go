package serving_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/kube/serving"
)

// TestATransformer has the shape of KServe's example of a transformer before TorchServe. Names, labels, ports, and arguments are those of KServe's
// Standard mode (transformer.go, transformer_custom.go, deployment_reconciler.go, service_reconciler.go), by their facts; that the Service
// torch-transformer leads to it is Berth's.
func TestATransformer(t *testing.T) {
	c, why := children(t, `
metadata: {name: torch, labels: {team: vision}, annotations: {berth.dev/rollout: wait, example.com/a: b}}
spec:
  predictor:
    model: {modelFormat: {name: pytorch}, storageUri: "gs://models/classifier"}
  transformer:
    minReplicas: 2
    containerConcurrency: 4
    serviceAccountName: reader
    containers:
      - {name: transformer, image: "example.com/image-transformer:1", command: [python, -m, model], args: [--model_name, mnist]}
      - {name: beside, image: "example.com/beside:1"}
`)
	if c == nil {
		t.Fatal(why)
	}
	var texts []string
	for _, o := range append([]map[string]any{c.Transformer.Deployment}, c.Transformer.Services...) {
		raw, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(raw))
	}
	got := strings.ReplaceAll(strings.Join(texts, "---\n"), c.Transformer.Revision, "REVISION")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile("testdata/transformer.yaml", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile("testdata/transformer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the transformer is another (-want +got):\n%s", diff)
	}
	if len(c.Services) != 1 || c.Services[0]["metadata"].(map[string]any)["name"] != "torch-predictor" {
		t.Errorf("the Services of the predictor are %v", c.Services)
	}
}

// A service with and without a transformer has the same pods of its model: no model is loaded again because of one.
func TestATransformerStartsNoRevisionOfTheModel(t *testing.T) {
	const predictor = "spec: {predictor: {sklearn: {storageUri: 'pvc://a/b'}}"
	without, _ := children(t, predictor+"}")
	with, why := children(t, predictor+", transformer: {containers: [{image: a, args: ['--predictor_host=elsewhere']}]}}")
	if with == nil {
		t.Fatal(why)
	}
	if with.Revision != without.Revision || with.Revision == with.Transformer.Revision {
		t.Errorf("revisions %s with and %s without; the transformer's is %s", with.Revision, without.Revision, with.Transformer.Revision)
	}
	server, _ := container(t, with.Transformer)
	if args, _ := server["args"].([]any); slices.Contains(args, any("--predictor_host")) || !slices.Contains(args, any("--model_name")) {
		t.Errorf("arguments %v", args)
	}
	if !serving.IsTransformer(map[string]string{"component": "transformer"}) || serving.IsTransformer(map[string]string{"component": "predictor"}) {
		t.Error("a transformer is a predictor")
	}
}
