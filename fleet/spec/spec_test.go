package spec_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/fleet/spec"
	"berth.dev/berth/internal/strictyaml"
)

// load returns a fleet that must be there.
func load(t *testing.T, arg string) spec.Fleet {
	t.Helper()
	f, err := spec.Load(arg)
	if err != nil {
		t.Fatalf("Load(%q): %v", arg, err)
	}
	return f
}

// cards says how many GPUs of which product each node has.
func cards(f spec.Fleet) map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, n := range f.Nodes {
		all[n.Name] = map[string]int{}
		for _, g := range n.GPUs {
			all[n.Name][g.Product]++
		}
	}
	return all
}

const (
	a100 = "NVIDIA A100-SXM4-40GB"
	h100 = "NVIDIA H100 80GB HBM3"
	v100 = "Tesla V100-SXM2-16GB"
	v32  = "Tesla V100-SXM2-32GB"
	t4   = "Tesla T4"
)

// rows: AS-08
func TestFleets(t *testing.T) {
	tests := []struct {
		name, arg string
		want      map[string]map[string]int
	}{
		{name: "lab is the course's three nodes with 14 GPUs", arg: "lab", want: map[string]map[string]int{
			"gpu-node-1": {a100: 8}, "gpu-node-2": {v100: 4}, "gpu-node-3": {t4: 2},
		}},
		{name: "default is six nodes with 34 GPUs", arg: "default", want: map[string]map[string]int{
			"gpu-h100-1": {h100: 8}, "gpu-a100-1": {a100: 8}, "gpu-a100-2": {a100: 8},
			"gpu-t4-1": {t4: 4}, "gpu-t4-2": {t4: 4}, "gpu-v100-1": {v100: 2},
		}},
		{name: "scale pads the number of a node", arg: "scale:2", want: map[string]map[string]int{
			"gpu-0001": {h100: 8}, "gpu-0002": {h100: 8},
		}},
		{name: "none has no nodes", arg: "none", want: map[string]map[string]int{}},
		{name: "the GPU computing module has its node pools", arg: "../../test/fleets/seed001.yaml", want: map[string]map[string]int{
			"gpu-node-1": {v32: 8}, "gpu-prod-1": {v32: 4}, "gpu-prod-2": {v32: 4}, "gpu-prod-3": {v32: 4},
			"gpu-train-1": {t4: 4}, "gpu-train-2": {t4: 4}, "gpu-dev-1": {a100: 8},
		}},
		{name: "the notebook lab has one T4 and one V100", arg: "../../test/fleets/seed002.yaml", want: map[string]map[string]int{
			"gpu-node-1": {t4: 1}, "gpu-node-2": {v100: 1},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, tt.arg)
			if diff := cmp.Diff(tt.want, cards(f)); diff != "" {
				t.Errorf("Load(%q): GPUs by node (-want +got):\n%s", tt.arg, diff)
			}
			if want := !strings.HasPrefix(tt.arg, "scale:") && tt.arg != "none"; f.System != want {
				t.Errorf("Load(%q): system = %v, want %v", tt.arg, f.System, want)
			}
			if len(f.Warnings) > 0 {
				t.Errorf("Load(%q): warnings %q, want none", tt.arg, f.Warnings)
			}
		})
	}
}

func TestEveryFleetFileLoads(t *testing.T) {
	files, err := filepath.Glob("../../test/fleets/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fleet files: %v", err)
	}
	for _, file := range files {
		f := load(t, file)
		if f.Name == "" || len(f.Nodes) == 0 {
			t.Errorf("Load(%q) = fleet %q of %d nodes", file, f.Name, len(f.Nodes))
		}
	}
}

func TestTheDocumentedFileLoads(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/reference/fleet.md has no YAML example")
	}
	f, err := spec.Parse("example.yaml", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range f.Nodes {
		got = append(got, n.Name)
	}
	if want := []string{"gpu-a100-1", "gpu-t4-1", "gpu-t4-2", "gpu-t4-3", "cpu-1"}; !slices.Equal(got, want) {
		t.Errorf("nodes = %q, want %q", got, want)
	}
}

func TestLoadNamesWhatThereIs(t *testing.T) {
	tests := []struct{ name, arg, want string }{
		{name: "a misspelt fleet gets the nearest", arg: "defualt", want: `did you mean "default"?`}, //nolint:misspell // on purpose
		{name: "a missing file gets the list", arg: "./no/such.yaml", want: "lab, default, scale:N, none"},
		{name: "no nodes is no fleet", arg: "scale:0", want: "from 1 to 5000"},
		{name: "a scale needs a number", arg: "scale:many", want: "try scale:100"},
		{name: "a scale has a limit", arg: "scale:5001", want: "from 1 to 5000"},
		{name: "a folder is not a fleet file", arg: ".", want: "give a readable file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := spec.Load(tt.arg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load(%q) = %v, want an error with %q", tt.arg, err, tt.want)
			}
		})
	}
}

// one is a file of one node with these lines under it.
func one(lines string) string { return "name: x\nnodes:\n- name: n1\n" + lines }

// rows: GS-03
func TestRefusals(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{name: "an unknown field gets the nearest", file: one("  memoryGib: 4\n"), want: `f:4: nodes[0].memoryGib: unknown field; did you mean "memoryGiB"?`},
		{name: "an unknown product gets the nearest", file: one("  gpus:\n    product: NVIDIA A100-SMX4-40GB\n    count: 8\n"), want: `f:5: nodes[0].gpus.product: "NVIDIA A100-SMX4-40GB" is not a product that Berth knows; did you mean "NVIDIA A100-SXM4-40GB"?`},
		{name: "an unknown profile gets the nearest", file: one("  gpus:\n    product: NVIDIA A100-SXM4-40GB\n    count: 1\n    mig: {profiles: {1g.6gb: 7}}\n"), want: `f:7: nodes[0].gpus.mig.profiles["1g.6gb"]: "1g.6gb" is not a MIG profile of NVIDIA A100-SXM4-40GB; did you mean "1g.5gb"?`},
		{name: "more of a profile than a GPU takes", file: one("  gpus:\n    product: NVIDIA A100-SXM4-40GB\n    count: 1\n    mig: {profiles: {1g.5gb: 8}}\n"), want: `f:7: nodes[0].gpus.mig.profiles["1g.5gb"]: 8 x 1g.5gb does not fit on one NVIDIA A100-SXM4-40GB; use a number from 1 to 7`},
		{name: "a negative count of a profile", file: one("  gpus:\n    product: NVIDIA A100-SXM4-40GB\n    count: 1\n    mig: {profiles: {1g.5gb: -1}}\n"), want: `use a number from 1 to 7`},
		{name: "profiles that have no placement together", file: one("  gpus:\n    product: NVIDIA A100-SXM4-40GB\n    count: 1\n    mig:\n      profiles:\n        3g.20gb: 2\n        1g.5gb: 1\n"), want: `f:8: nodes[0].gpus.mig.profiles: profile 1g.5gb: no placement left on one NVIDIA A100-SXM4-40GB`},
		{name: "MIG on a product without it", file: one("  gpus: {product: Tesla T4, count: 1, mig: {profiles: {1g.5gb: 1}}}\n"), want: `Tesla T4 cannot be partitioned: it has no MIG`},
		{name: "unlike devices under strategy single", file: one("  gpus: {product: NVIDIA A100-SXM4-40GB, count: 2, mig: {strategy: single, perGPU: [{1g.5gb: 7}, {3g.20gb: 2}]}}\n"), want: `nodes[0].gpus.mig: more than one MIG device type present on node: 1g.5gb and 3g.20gb; use migStrategy mixed`},
		{name: "fewer entries than GPUs", file: one("  gpus: {product: NVIDIA A100-SXM4-40GB, count: 2, mig: {perGPU: [{1g.5gb: 7}]}}\n"), want: `1 entries for 2 GPUs; give 2 entries; {} leaves MIG off`},
		{name: "profiles said twice", file: one("  gpus: {product: NVIDIA A100-SXM4-40GB, count: 1, mig: {profiles: {1g.5gb: 7}, perGPU: [{1g.5gb: 7}]}}\n"), want: `profiles applies to all GPUs and perGPU to each`},
		{name: "an unknown MIG strategy gets the nearest", file: one("  gpus: {product: Tesla T4, count: 1, mig: {strategy: mix}}\n"), want: `"mix" is not a MIG strategy; did you mean "mixed"?`},
		{name: "two MIG strategies", file: one("  gpus: {product: NVIDIA A100-SXM4-40GB, count: 1, mig: {strategy: single, profiles: {1g.5gb: 7}}}\n  sharing: {version: v1, flags: {migStrategy: mixed}}\n"), want: `nodes[0].gpus.mig.strategy: "single" here, but flags.migStrategy under sharing is "mixed"`},
		{name: "a duplicate node", file: "nodes:\n- name: a\n- name: a\n", want: `f:3: nodes[1].name: node "a" is already defined on line 2; give it another name`},
		{name: "a duplicate between groups that count", file: "nodes:\n- name: a-2\n- name: a-{n}\n  count: 3\n", want: `node "a-2" is already defined on line 2`},
		{name: "one name for many", file: "nodes:\n- name: a\n  count: 3\n", want: `f:2: nodes[0].name: 3 nodes cannot share one name; write "a-{n}"`},
		{name: "a node without a name", file: "nodes:\n- cpu: 4\n", want: `f:2: nodes[0].name: a node needs a name`},
		{name: "a name that Kubernetes refuses", file: "nodes:\n- name: GPU_1\n", want: `"GPU_1" is not a node name`},
		{name: "a name with a dot", file: "nodes:\n- name: gpu.example.com\n", want: `"gpu.example.com" is not a node name`},
		{name: "a negative number of nodes", file: "nodes:\n- name: a-{n}\n  count: -1\n", want: `f:3: nodes[0].count: the number of nodes must be from 1 to 5000, not -1`},
		{name: "a negative number of GPUs", file: one("  gpus: {product: Tesla T4, count: -4}\n"), want: `a node has from 1 to 16 GPUs, not -4`},
		{name: "too many GPUs", file: one("  gpus: {product: Tesla T4, count: 1000000000}\n"), want: `a node has from 1 to 16 GPUs`},
		{name: "negative cores", file: one("  cpu: -1\n"), want: `f:4: nodes[0].cpu: -1 is out of range; use a number from 1 to 1024`},
		{name: "no memory", file: one("  memoryGiB: 0\n"), want: `nodes[0].memoryGiB: 0 is out of range`},
		{name: "more pods than the network has addresses", file: one("  pods: 500\n"), want: `use a number from 1 to 250`},
		{name: "a negative price", file: one("  pricePerHour: -1\n"), want: `nodes[0].pricePerHour: -1 is not a price`},
		{name: "a price that is no number", file: one("  pricePerHour: .nan\n"), want: `NaN is not a price`},
		{name: "a misspelled capacity type", file: one("  capacityType: sopt\n"), want: `f:4: nodes[0].capacityType: "sopt" is not a capacity type; did you mean "spot"?`},
		{name: "a misspelled effect", file: one("  taints:\n  - {key: a, effect: NoSchedul}\n"), want: `f:5: nodes[0].taints[0].effect: "NoSchedul" is not an effect; did you mean "NoSchedule"?`},
		{name: "a label that follows from the GPUs", file: one("  labels:\n    nvidia.com/gpu.product: fast\n"), want: `f:5: nodes[0].labels["nvidia.com/gpu.product"]: nvidia.com/gpu.product follows from gpus and sharing`},
		{name: "a label of Berth's", file: one("  labels: {berth.dev/simulated: \"false\"}\n"), want: `the fleet itself sets berth.dev/simulated`},
		{name: "a number as a label", file: one("  labels: {gpu-count: 8}\n"), want: `must be text, found 8; write it in quotes: "8"`},
		{name: "NVLink where there is none", file: one("  gpus: {product: Tesla T4, count: 2, nvlink: true}\n"), want: `Tesla T4 has no NVLink`},
		{name: "a driver without GPUs", file: one("  driver: 570.124.06\n  cuda: \"12.8\"\n"), want: `a node without GPUs has no driver`},
		{name: "a driver without its CUDA level", file: one("  driver: 570.124.06\n  gpus: {product: Tesla T4, count: 1}\n"), want: `driver and cuda go together; add the driver's CUDA level`},
		{name: "a driver that is none", file: one("  driver: latest\n  cuda: \"12.8\"\n  gpus: {product: Tesla T4, count: 1}\n"), want: `"latest" is not a driver version`},
		{name: "sharing without GPUs", file: one("  sharing: {version: v1}\n"), want: `f:4: nodes[0].sharing: a node without GPUs has nothing to share`},
		{name: "sharing in NVIDIA's words, with the line of the fleet file", file: one("  gpus: {product: Tesla T4, count: 1}\n  sharing:\n    version: v1\n    sharing:\n      timeSlicing:\n        resources:\n        - name: nvidia.com/gpu\n          replicas: 1\n"), want: `f:11: nodes[0].sharing.sharing.timeSlicing.resources[0].replicas: number of replicas must be >= 2`},
		{name: "sharing that the GPUs do not take", file: one("  gpus: {product: Tesla T4, count: 1}\n  sharing: {version: v1, sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 49}]}}}\n"), want: `nodes[0].sharing: maximum allowed replicas exceeded: 49 > 48`},
		{name: "a fleet without nodes", file: "name: x\n", want: `f:1: nodes: a fleet needs at least one node`},
		{name: "an empty file", file: "", want: `a fleet needs at least one node`},
		{name: "no YAML", file: "nodes: [", want: `f:1: not YAML`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := spec.Parse("f", []byte(tt.file))
			var refusal *strictyaml.Error
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse(%q)\n got %v\nwant %s", tt.file, err, tt.want)
			}
		})
	}
}

func TestNodesHaveWhatTheirGroupSays(t *testing.T) {
	f, err := spec.Parse("teams.yaml", []byte(`
nodes:
- name: a-{nn}
  count: 2
  zone: us-central1-a
  capacityType: spot
  pricePerHour: 0.50
  cpu: 4
  memoryGiB: 16
  labels: {team: vision}
  taints: [{key: sku, value: gpu, effect: NoSchedule}]
  gpus: {product: NVIDIA-A100-SXM4-40GB, count: 2, nvlink: false}
`))
	if err != nil {
		t.Fatal(err)
	}
	if f.Name != "teams" || !f.System {
		t.Errorf("fleet %q, system %v; want the file's name and system pods", f.Name, f.System)
	}
	want := spec.Node{
		Name: "a-02", Zone: "us-central1-a", InstanceType: "berth-simulated", CapacityType: spec.Spot, CPU: 4, MemoryGiB: 16, Pods: 110,
		PricePerHour: "0.5", Labels: map[string]string{"team": "vision"}, Taints: []spec.Taint{{Key: "sku", Value: "gpu", Effect: "NoSchedule"}},
		Driver: "570.124.06", CUDA: "12.8",
	}
	got := f.Nodes[1]
	for _, g := range got.GPUs {
		if g.Product != a100 || g.Clique != 0 {
			t.Errorf("GPU %d is a %q in clique %d, want %q without NVLink", g.Index, g.Product, g.Clique, a100)
		}
	}
	got.GPUs = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("second node (-want +got):\n%s", diff)
	}
}

func TestNodesOfAGroupShareNothing(t *testing.T) {
	f := load(t, "../../test/fleets/seed001.yaml")
	seen := map[string]string{}
	for _, n := range f.Nodes {
		for _, g := range n.GPUs {
			if other, ok := seen[g.UUID]; ok {
				t.Errorf("%s is on %s and on %s", g.UUID, other, n.Name)
			}
			seen[g.UUID] = n.Name
		}
	}
	f, err := spec.Parse("f", []byte("nodes:\n- name: a-{n}\n  count: 2\n  labels: {team: vision}\n"))
	if err != nil {
		t.Fatal(err)
	}
	before := maps.Clone(f.Nodes[1].Labels)
	f.Nodes[0].Labels["team"] = "nlp"
	if diff := cmp.Diff(before, f.Nodes[1].Labels); diff != "" {
		t.Errorf("a label of one node changed another (-want +got):\n%s", diff)
	}
}

func TestWhatNVIDIAIgnoresIsAWarning(t *testing.T) {
	f, err := spec.Parse("f", []byte(one("  gpus: {product: Tesla T4, count: 1}\n  sharing: {version: v1, resources: {gpus: [{pattern: \"*\", name: gpu}]}}\n")))
	if err != nil || len(f.Warnings) != 1 {
		t.Errorf("warnings = %q, %v; want one", f.Warnings, err)
	}
}

func TestMIGStrategyDefaultsToMixedWhereGPUsAreCut(t *testing.T) {
	f := load(t, "../../test/fleets/mig.yaml")
	for i, want := range []gpu.MIGStrategy{gpu.MIGMixed, gpu.MIGMixed, gpu.MIGSingle} {
		if got := f.Nodes[i].Sharing.MIGStrategy; got != want {
			t.Errorf("%s: strategy %q, want %q", f.Nodes[i].Name, got, want)
		}
	}
	cut, err := spec.Parse("f", []byte(one("  gpus: {product: NVIDIA A100-SXM4-40GB, count: 1, mig: {profiles: {1g.5gb: 7}}}\n")))
	if err != nil || cut.Nodes[0].Sharing.MIGStrategy != gpu.MIGMixed {
		t.Errorf("without a strategy: %q, %v; want mixed", cut.Nodes[0].Sharing.MIGStrategy, err)
	}
}

// FuzzParse holds that no file makes Parse panic, and that every node of a
// fleet it accepts can be made a Kubernetes Node.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("../../test/fleets/*.yaml")
	own, _ := filepath.Glob("fleets/*.yaml")
	for _, file := range append(files, own...) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(one("  gpus: {product: Tesla T4, count: 1}\n  sharing: {version: v1}\n")))
	f.Fuzz(func(t *testing.T, data []byte) {
		fleet, err := spec.Parse("f", data)
		if err != nil {
			var refusal *strictyaml.Error
			if !errors.As(err, &refusal) || refusal.Message == "" {
				t.Errorf("Parse: %v is not a *strictyaml.Error with a message", err)
			}
			return
		}
		for _, n := range fleet.Nodes[:min(3, len(fleet.Nodes))] {
			if _, err := spec.Kubernetes(n, "10.64.0.1", noon); err != nil {
				t.Errorf("Kubernetes(%s): %v", n.Name, err)
			}
		}
	})
}
