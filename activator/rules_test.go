package activator_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"berth.dev/berth/activator"
	"berth.dev/berth/api"
)

// TestTheManifestHasTheRules holds deploy/activator.yaml to what is checked at the start, and to what the controllers ask for.
func TestTheManifestHasTheRules(t *testing.T) {
	text, err := os.ReadFile("../deploy/activator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]rbacv1.PolicyRule{}
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			break
		}
		var role rbacv1.ClusterRole
		if err := json.Unmarshal(raw, &role); err != nil {
			t.Fatal(err)
		}
		if len(role.Rules) > 0 {
			got[role.Name] = role.Rules
		}
	}
	want := map[string][]rbacv1.PolicyRule{
		api.ActivatorApp: activator.ProcessRules(),
		api.StatsReader:  {{NonResourceURLs: []string{api.StatsPath}, Verbs: []string{"get"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deploy/activator.yaml differs from what is asked for (-code +manifest):\n%s", diff)
	}
}
