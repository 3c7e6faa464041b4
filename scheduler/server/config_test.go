package server

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"berth.dev/berth/internal/rights"
	"berth.dev/berth/kube/runs"
	"berth.dev/berth/scheduler/devices"
	"berth.dev/berth/scheduler/reserve"
)

func TestConfigurationIsValid(t *testing.T) {
	lease := DefaultLease()
	for _, tt := range []struct {
		name     string
		settings Settings
		profiles []string
		commits  bool
	}{
		{"upstream's profile alone", Settings{Kubeconfig: "/a b/k'1\".yaml"}, []string{"default-scheduler"}, false},
		{"Berth's for two names, elected", Settings{Names: []string{"default-scheduler", "on"}, Lease: &lease}, []string{"default-scheduler", "on"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := decode([]byte(Configuration(tt.settings)))
			if err != nil {
				t.Fatal(err)
			}
			if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
				t.Error(err)
			}
			var names []string
			for _, p := range cfg.Profiles {
				names = append(names, p.SchedulerName)
			}
			if !slices.Equal(names, tt.profiles) || commits(cfg) != tt.commits {
				t.Errorf("profiles %v, with Berth's plugin %v; want %v, %v", names, commits(cfg), tt.profiles, tt.commits)
			}
			if cfg.ClientConnection.Kubeconfig != tt.settings.Kubeconfig || cfg.ClientConnection.QPS >= 0 {
				t.Errorf("connection %+v: want kubeconfig %s and no limit", cfg.ClientConnection, tt.settings.Kubeconfig)
			}
			e := cfg.LeaderElection
			if e.LeaderElect != (tt.settings.Lease != nil) || e.LeaderElect && (e.ResourceName != "berth-scheduler" || e.LeaseDuration.Duration != 15*time.Second) {
				t.Errorf("election %+v, want %+v", e, tt.settings.Lease)
			}
		})
	}
}

// TestReservationsAreAsConfigured reads back after how long places are kept. 0 is set: it is not what is not said.
func TestReservationsAreAsConfigured(t *testing.T) {
	for text, after := range map[string]*time.Duration{"10s": nil, "0s": new(time.Duration), "1m30s": new(90 * time.Second)} {
		cfg, err := decode([]byte(Configuration(Settings{Names: []string{"default-scheduler"}, ReserveAfter: after})))
		if err != nil {
			t.Fatal(err)
		}
		var args runtime.Object
		for _, p := range cfg.Profiles[0].PluginConfig {
			if p.Name == devices.PreemptionName {
				args = p.Args
			}
		}
		if got, err := reserve.ReadArgs(args); err != nil || got.String() != text {
			t.Errorf("places are kept after %v, %v; want %s", got, err, text)
		}
	}
}

func TestDecodeRefusesOtherKinds(t *testing.T) {
	for _, text := range []string{"", "kind: Pod\napiVersion: v1\n", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs\n"} {
		if cfg, err := decode([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, cfg)
		}
	}
}

// TestManifestHasTheRules holds deploy/scheduler.yaml to what is checked at start.
func TestManifestHasTheRules(t *testing.T) {
	text, err := os.ReadFile("../../deploy/scheduler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string][]rbacv1.PolicyRule{}
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
			roles[role.Kind+" "+role.Name] = role.Rules
		}
	}
	want := map[string][]rbacv1.PolicyRule{
		"ClusterRole " + RoleName:               Rules(),
		"ClusterRole " + RoleName + "-policies": PolicyRules(),
		"Role " + RoleName + "-pools":           PoolRules(),
		"Role " + RoleName + "-run-times":       RunTimeRules(),
		"Role berth-run-times-reader":           {rights.Named(rights.Rule("", "configmaps", "get"), runs.Name)},
		"Role " + RoleName:                      LeaseRules(DefaultLease().Name),
	}
	if diff := cmp.Diff(want, roles); diff != "" {
		t.Errorf("deploy/scheduler.yaml differs from what the scheduler asks for (-code +manifest):\n%s", diff)
	}
}
