package labels_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/agent/labels"
	"berth.dev/berth/core/gpu"
)

// policy reads the policy of deploy/agent.yaml that says what an agent may write on its
// Node.
func policy(t *testing.T) admissionv1.ValidatingAdmissionPolicySpec {
	t.Helper()
	text, err := os.ReadFile("../../deploy/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		var p admissionv1.ValidatingAdmissionPolicy
		if err := yaml.Unmarshal([]byte(part), &p); err != nil {
			t.Fatal(err)
		}
		if p.Kind == "ValidatingAdmissionPolicy" && p.Name == "berth-agent-own-node" {
			return p.Spec
		}
	}
	t.Fatal("deploy/agent.yaml has no policy berth-agent-own-node")
	return admissionv1.ValidatingAdmissionPolicySpec{}
}

func TestThePolicyHasTheNamesThatTheAgentWrites(t *testing.T) {
	quoted := regexp.MustCompile(`'([^']*)'`)
	got := map[string][]string{}
	for _, v := range policy(t).Variables {
		for _, m := range quoted.FindAllStringSubmatch(v.Expression, -1) {
			got[v.Name] = append(got[v.Name], m[1])
		}
	}
	for name, want := range map[string][]string{
		"ownLabels": labels.OwnLabels(), "ownAnnotations": labels.OwnAnnotations(), "ownMIGLabels": {labels.MIGLabels},
	} {
		slices.Sort(want)
		slices.Sort(got[name])
		if diff := cmp.Diff(want, got[name]); diff != "" {
			t.Errorf("variable %s of deploy/agent.yaml (-code +manifest):\n%s", name, diff)
		}
	}
}

// TestEveryLabelIsTheAgents holds the list to what a driver can make the agent write:
// each product, whole, cut in each way it can be, and shared in each way.
func TestEveryLabelIsTheAgents(t *testing.T) {
	facts := func(n gpu.Node) map[string]gpu.Facts {
		out := map[string]gpu.Facts{}
		for _, g := range n.GPUs {
			f := gpu.Facts{ComputeMajor: 9, MIGCapable: true, Fabric: "c.1"}
			for _, m := range g.MIG {
				f.Profiles = append(f.Profiles, gpu.Profile{Name: m.Profile})
			}
			out[g.UUID] = f
		}
		return out
	}
	seen := map[string]bool{}
	for _, p := range gpu.Products() {
		profiles := []string{"", "1g.24gb-me", "1g.24gb+me.all", "1g.24gb+gfx", "1c.3g.20gb"}
		for _, m := range p.Profiles {
			profiles = append(profiles, m.Name)
		}
		for _, profile := range profiles {
			g := gpu.GPU{UUID: "GPU-0", Product: p.Name, MemoryBytes: 1 << 30}
			if profile != "" {
				g.MIGEnabled, g.MIG = true, []gpu.MIGDevice{{UUID: "MIG-0", Profile: profile, Slices: 1, MemoryBytes: 1}}
			}
			n := gpu.Node{GPUs: []gpu.GPU{g}, Machine: "m", DriverVersion: "570.1.2", CUDAVersion: "12.8"}
			for _, strategy := range []gpu.MIGStrategy{gpu.MIGNone, gpu.MIGSingle, gpu.MIGMixed} {
				for _, how := range []gpu.SharingStrategy{gpu.SharingNone, gpu.SharingTimeSlicing, gpu.SharingMPS} {
					s := gpu.Sharing{MIGStrategy: strategy, Strategy: how, Replicas: map[string]int{"nvidia.com/gpu": 4, gpu.MIGResource(profile): 2}}
					for key := range gpu.DriverLabels(n, s, facts(n)) {
						seen[key] = true
					}
				}
			}
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d labels were made: %v", len(seen), slices.Sorted(maps.Keys(seen)))
	}
	for key := range seen {
		if !labels.OwnsLabel(key) {
			t.Errorf("the agent writes label %s, which its policy refuses", key)
		}
	}
	for _, key := range []string{
		"nvidia.com/mig.config", "nvidia.com/device-plugin.config", "nvidia.com/gpu.deploy.device-plugin", "berth.dev/agent",
		"nvidia.com/mig-1g.10gb.count.more", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-x.count", "node-role.kubernetes.io/control-plane",
	} {
		if labels.OwnsLabel(key) {
			t.Errorf("label %s is another's", key)
		}
	}
}
