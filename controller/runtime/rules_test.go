package runtime_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"berth.dev/berth/controller/idle"
	"berth.dev/berth/controller/notebook"
	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/controller/queue"
	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/controller/serving"
	"berth.dev/berth/controller/training"
)

// manifest reads the roles of deploy/controller.yaml.
func manifest(t *testing.T) (roles map[string]rbacv1.ClusterRole) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/controller.yaml")
	if err != nil {
		t.Fatal(err)
	}
	roles = map[string]rbacv1.ClusterRole{}
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return roles
		}
		var role rbacv1.ClusterRole // a Role has the same fields
		if err := json.Unmarshal(raw, &role); err != nil {
			t.Fatal(err)
		}
		if len(role.Rules) > 0 {
			roles[role.Kind+" "+role.Name] = role
		}
	}
}

// rules returns the rights of the process with all kinds.
func rules() []rbacv1.PolicyRule {
	return runtime.Rules(append([]runtime.Kind{notebook.Kind("", notebook.Options{}, idle.Options{}), queue.Kind(queue.Options{}), serving.Kind("", serving.Options{})}, training.Kinds("", training.Options{})...)...)
}

// TestManifestHasTheRules holds deploy/controller.yaml to what is checked at start.
func TestManifestHasTheRules(t *testing.T) {
	want := map[string][]rbacv1.PolicyRule{
		"ClusterRole " + runtime.RoleName:                  rules(),
		"ClusterRole " + runtime.RoleName + "-proxied":     idle.ProxiedRules(),
		"ClusterRole " + runtime.RoleName + "-definitions": runtime.DefinitionRules(),

		"ClusterRole " + runtime.RoleName + "-default-classes": queue.ClassRules(),
		"Role " + runtime.RoleName:                             runtime.OwnRules(runtime.DefaultLease().Name),
		"Role " + runtime.RoleName + "-exporters":              proxy.ExporterRules(),
		"Role " + runtime.RoleName + "-activators":             serving.ActivatorRules(),
	}
	labels := map[string]map[string]string{}
	for _, r := range slices.Concat(notebook.Roles(), training.Roles(), serving.Roles()) {
		want["ClusterRole "+r.Name], labels["ClusterRole "+r.Name] = r.Rules, r.Labels
	}
	got := map[string][]rbacv1.PolicyRule{}
	for name, r := range manifest(t) {
		got[name] = r.Rules
		if diff := cmp.Diff(labels[name], r.Labels); diff != "" {
			t.Errorf("labels of %s (-code +manifest):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deploy/controller.yaml differs from what the controllers ask for (-code +manifest):\n%s", diff)
	}
}

// TestNoRuleIsWide holds the roles to what they are for.
func TestNoRuleIsWide(t *testing.T) {
	all := [][]rbacv1.PolicyRule{rules(), idle.ProxiedRules(), runtime.DefinitionRules(), queue.ClassRules(), runtime.OwnRules("n"), proxy.ExporterRules(), serving.ActivatorRules()}
	for _, r := range slices.Concat(notebook.Roles(), training.Roles(), serving.Roles()) {
		all = append(all, r.Rules)
	}
	for _, r := range slices.Concat(all...) {
		for _, word := range slices.Concat(r.APIGroups, r.Resources, r.Verbs) {
			if strings.Contains(word, "*") {
				t.Errorf("rule %+v has a star", r)
			}
		}
		if slices.Contains(r.Resources, "secrets") {
			t.Errorf("rule %+v gives secrets", r)
		}
	}
	for _, r := range rules() {
		if slices.Contains(r.Resources, "notebooks") && (slices.Contains(r.Verbs, "update") || slices.Contains(r.Verbs, "create")) {
			t.Errorf("rule %+v lets the controllers write a notebook's spec in full", r)
		}
		if (slices.Contains(r.Resources, "tfjobs") || slices.Contains(r.Resources, "pytorchjobs")) && (slices.Contains(r.Verbs, "update") || slices.Contains(r.Verbs, "create")) {
			t.Errorf("rule %+v lets the controllers write a job's spec in full", r)
		}
	}
}
