package meter

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"berth.dev/berth/api"
	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/internal/rights"
)

// TestTheManifestHasTheRules holds deploy/meter.yaml to what is checked at the start, and to what the commands ask for.
func TestTheManifestHasTheRules(t *testing.T) {
	text, err := os.ReadFile("../../deploy/meter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]rbacv1.PolicyRule{}
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			break
		}
		var role rbacv1.ClusterRole // a Role has the same fields
		if err := json.Unmarshal(raw, &role); err != nil {
			t.Fatal(err)
		}
		if len(role.Rules) > 0 {
			got[role.Kind+" "+role.Name] = role.Rules
		}
	}
	url := func(path string, verbs ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{NonResourceURLs: []string{path}, Verbs: verbs}}
	}
	people := func(verbs []string, accounts ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{rights.Named(rights.Rule("", "serviceaccounts/token", "create"), accounts...), rights.Named(rights.Rule("", "services/proxy", verbs...), api.LedgerService)}
	}
	want := map[string][]rbacv1.PolicyRule{
		"ClusterRole berth-meter": ProcessRules(), "Role berth-meter-exporters": proxy.ExporterRules(),
		"ClusterRole " + api.LedgerReader: append(url(Path+"*", "get"), url(api.PrometheusPath+"*", "get", "post")...), "ClusterRole " + api.LedgerWriter: url(Path+"rerate", "post"),
		"Role berth-ledger-view": people([]string{"get"}, api.LedgerReader), "Role berth-ledger-admin": people([]string{"get", "create"}, api.LedgerReader, api.LedgerWriter),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deploy/meter.yaml differs from what is asked for (-code +manifest):\n%s", diff)
	}
}

// TestAMeterOnlyReads holds its rules to what it is for: the reviews are questions, and budgets are announced.
func TestAMeterOnlyReads(t *testing.T) {
	for _, r := range ProcessRules() {
		if r.APIGroups[0] == "events.k8s.io" || slices.Equal(r.Resources, []string{"queues/status"}) {
			continue
		}
		for _, verb := range r.Verbs {
			if reads := slices.Contains(rights.Read, verb); !reads && r.APIGroups[0] != "authentication.k8s.io" && r.APIGroups[0] != "authorization.k8s.io" {
				t.Errorf("it may %s %v", verb, r.Resources)
			}
		}
	}
}
