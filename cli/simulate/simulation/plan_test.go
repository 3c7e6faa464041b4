package simulation_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"testing"

	"berth.dev/berth/cli/simulate/simulation"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/sim"
	"berth.dev/berth/sim/baseline"
	"berth.dev/berth/test/soak"
)

// trace reads the cut of the openb trace that package sim keeps for tests.
func trace(t *testing.T) ([]cluster.Spec, []sim.Pod) {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "sim", "testdata")
	f, err := os.Open(filepath.Join(dir, "nodes.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	nodes, err := sim.ReadNodes("nodes.csv", f)
	if err != nil {
		t.Fatal(err)
	}
	g, err := os.Open(filepath.Join(dir, "pods_default.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	pods, err := sim.ReadPods("pods.csv", g, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return nodes, pods
}

// planOf is two policies on the cut, seeds 1 to 4.
func planOf(t *testing.T, protocol string, loads ...float64) *simulation.Plan {
	t.Helper()
	nodes, pods := trace(t)
	s, err := cluster.New(nodes)
	if err != nil {
		t.Fatal(err)
	}
	p := &simulation.Plan{Cluster: s, Pods: pods, Protocol: protocol, Loads: loads, Seeds: []int64{1, 2, 3, 4}}
	for _, name := range []string{"berth", "fgd"} {
		mk, err := baseline.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		p.Policies = append(p.Policies, simulation.Policy{Name: name, Make: mk})
	}
	return p
}

func report(t *testing.T, ctx context.Context, p *simulation.Plan) (*simulation.Report, string) {
	t.Helper()
	r, err := p.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return r, string(raw)
}

var seconds = regexp.MustCompile(`"(cpu|tune)_seconds": [0-9.]+`)

func TestEqualPlansGiveEqualBytes(t *testing.T) {
	for _, tt := range []struct {
		protocol string
		loads    []float64
	}{{simulation.ProtocolFGD, []float64{1.3}}, {simulation.ProtocolChurn, []float64{0.6, 0.9}}} {
		first := ""
		for range soak.Pick(2, 3) {
			_, raw := report(t, t.Context(), planOf(t, tt.protocol, tt.loads...))
			raw = seconds.ReplaceAllString(raw, "")
			if first == "" {
				first = raw
			}
			if raw != first {
				t.Errorf("%s: two runs of one plan differ:\n%s\n%s", tt.protocol, first, raw)
			}
		}
	}
}

// TestJSONHasTheFormThatProgramsRead holds the names and forms of all fields.
func TestJSONHasTheFormThatProgramsRead(t *testing.T) {
	_, raw := report(t, t.Context(), planOf(t, simulation.ProtocolFGD, 1.3))
	var got struct {
		Policies []struct {
			Name string
			Mean map[string]json.Number
			Runs []map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(raw), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Policies) != 2 || got.Policies[0].Name != "berth" || got.Policies[1].Name != "fgd" {
		t.Fatalf("policies are %+v, want berth and fgd", got.Policies)
	}
	twoDecimals := regexp.MustCompile(`^\d+\.\d\d$`)
	for _, p := range got.Policies {
		for _, at := range []string{"100", "130"} {
			if !twoDecimals.MatchString(p.Mean[at].String()) {
				t.Errorf("%s: mean at %s is %q, want two decimals", p.Name, at, p.Mean[at])
			}
		}
		if len(p.Runs) != 4 {
			t.Fatalf("%s has %d runs, want 4", p.Name, len(p.Runs))
		}
		var names []string
		for name := range p.Runs[0] {
			names = append(names, name)
		}
		slices.Sort(names)
		if want := []string{"allocated", "cpu_seconds", "decisions", "failed", "seed", "tune_seconds"}; !slices.Equal(names, want) {
			t.Errorf("a run has %v, want %v", names, want)
		}
		var failed map[string]struct{ Pods, Failed *int }
		if err := json.Unmarshal(p.Runs[0]["failed"], &failed); err != nil {
			t.Fatal(err)
		}
		for _, class := range sim.Classes {
			if failed[class].Pods == nil || failed[class].Failed == nil {
				t.Errorf("class %s has no pods or failed in %s", class, p.Runs[0]["failed"])
			}
		}
	}
}

func TestChurnTellsEachLoadApart(t *testing.T) {
	r, _ := report(t, t.Context(), planOf(t, simulation.ProtocolChurn, 0.5, 1.3))
	for _, p := range r.Policies {
		if len(p.Runs) != 8 || !(p.Mean[50] > 30 && p.Mean[50] < 60 && p.Mean[130] > p.Mean[50]) {
			t.Errorf("%s: %d runs with means %v, want 8 and more allocated at load 1.3 than at 0.5", p.Name, len(p.Runs), p.Mean)
		}
		low, _ := p.Rate("1", 0.5)
		high, _ := p.Rate("1", 1.3)
		if high <= low || p.Wait("1", 1.3) <= p.Wait("1", 0.5) {
			t.Errorf("%s: at load 1.3 pods of one GPU fail %.1f%% and at 0.5 %.1f%%, want more, and longer waits", p.Name, high, low)
		}
	}
}

func TestAnEndedContextGivesPartialResults(t *testing.T) {
	// As many runs as there are processors are under way at once. With two, two have
	// ended when the first of the other six are told to stop.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	ctx, cancel := context.WithCancel(t.Context())
	p := planOf(t, simulation.ProtocolFGD, 1.3)
	p.Progress = func(ended, _ int, _ float64) {
		if ended >= 2 {
			cancel()
		}
	}
	r, raw := report(t, ctx, p)
	if !r.Partial() || r.Ended == 0 || r.Ended == r.Planned || !regexp.MustCompile(`"partial": true`).MatchString(raw) {
		t.Errorf("%d of %d runs ended, partial %v; want some, and that it is said:\n%s", r.Ended, r.Planned, r.Partial(), raw)
	}
}

func TestWhatIsHeldStaysAndCounts(t *testing.T) {
	p := planOf(t, simulation.ProtocolFGD, 1.3)
	whole, _ := report(t, t.Context(), p)
	request := cluster.Request{GPUs: 1, MilliGPU: cluster.Whole}
	for i := range p.Cluster.Len() {
		if len(p.Cluster.GPUs(i)) > 0 {
			bytes := p.Cluster.Cards(i)[0].MemoryBytes
			p.Held = append(p.Held, cluster.Placement{Node: i, Request: request, Devices: []cluster.Device{{MilliGPU: cluster.Whole, MemoryBytes: bytes}}})
		}
	}
	held, _ := report(t, t.Context(), p)
	if a, b := whole.Policies[0].Runs[0].Decisions, held.Policies[0].Runs[0].Decisions; b >= a {
		t.Errorf("%d decisions beside what is held, want fewer than the %d without", b, a)
	}
	at := held.Policies[0].Curve[0]
	if share := 100 * float64(len(p.Held)) / float64(p.Cluster.TotalGPUs()); at.AllocatedPercent < share || float64(at.DemandPercent) < share-1 {
		t.Errorf("the curve begins at %+v, want %.1f percent held from the start", at, share)
	}
	p.Loads = []float64{0.1}
	if _, err := p.Run(t.Context()); err == nil {
		t.Error("a load below what is held is simulated, want a refusal")
	}
}

func TestImpossiblePodsAreNamed(t *testing.T) {
	nodes, pods := trace(t)
	s, err := cluster.New(nodes)
	if err != nil {
		t.Fatal(err)
	}
	if got := simulation.Impossible(s, pods); len(got) != 0 {
		t.Errorf("%d pods of the trace fit no node, want none: %+v", len(got), got[0])
	}
	pods[3].GPUs, pods[3].MilliGPU = 9, 1000
	pods[5].CPUMilli = 1 << 40
	got := simulation.Impossible(s, pods)
	if len(got) != 2 || got[0].Name != pods[3].Name || got[1].Name != pods[5].Name {
		t.Errorf("impossible are %+v, want pods 3 and 5", got)
	}
}
