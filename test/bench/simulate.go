package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// workload is one of the openb trace, and what is known of it.
type workload struct {
	name string
	// FGD's mean allocation over ten seeds at 100 and 130 percent, as published
	// (hkust-adsl/kubernetes-scheduler-simulator, expected_results).
	fgd100, fgd130 float64
	// bound is what no placement of the same pods exceeds at 130 percent: a
	// configuration linear program solved for seed 42.
	bound float64
}

var workloads = []workload{
	{"default", 95.23, 95.39, 96.47},
	{"cpu200", 94.82, 95.05, 96.42},
	{"gpushare40", 93.96, 94.15, 95.06},
	{"gpushare100", 86.64, 86.90, 88.78},
	{"gpuspec20", 94.66, 94.84, 96.58},
	{"multigpu30", 96.36, 96.46, 97.27},
}

// simulated is what bench reads of berth simulate -o json.
type simulated struct {
	Policies []struct {
		Name string
		Mean map[string]float64
		Runs []struct {
			CPU       float64 `json:"cpu_seconds"`  //nolint:tagliatelle // a name that programs read
			Tune      float64 `json:"tune_seconds"` //nolint:tagliatelle // a name that programs read
			Decisions int
		}
	}
}

// benchSimulate measures the FGD protocol on the openb trace, if it is in
// $BERTH_TRACES or beside the repository, else on the cut of it that the tests
// have.
func benchSimulate(_ context.Context, r *report, _ string) error {
	dir := os.Getenv("BERTH_TRACES")
	if dir == "" {
		dir = filepath.Join("..", "shared", "traces", "openb")
	}
	nodes := filepath.Join(dir, "openb_node_list_gpu_node.csv")
	if _, err := os.Stat(nodes); err != nil {
		fmt.Fprintf(os.Stderr, "  the openb trace is not in %s (set $BERTH_TRACES): a cut of it is measured, which no figure is published for\n", dir)
		return benchCut(r)
	}
	var gap, tunedGap, most float64
	for _, w := range workloads {
		got, err := simulate(nodes, filepath.Join(dir, "openb_pod_list_"+w.name+".csv"), "42-51", "berth,fgd")
		if err != nil {
			return err
		}
		b, f := got.Policies[0].Mean, got.Policies[1].Mean
		how := "`berth simulate --seeds 42-51 --policy berth,fgd` on openb " + w.name
		off := max(math.Abs(f["130"]-w.fgd130), math.Abs(f["100"]-w.fgd100))
		r.add(figure{what: w.name + ": FGD here against FGD as published, at 100 and 130 %", values: []float64{off}, unit: "points apart", aim: 0.1, how: how})
		r.add(figure{what: w.name + ": GPU allocated by Berth at 100 %", values: []float64{b["100"]}, unit: "%", least: f["100"], how: "the same; the aim is FGD's"})
		r.add(figure{what: w.name + ": GPU allocated by Berth at 130 %", values: []float64{b["130"]}, unit: "%", least: f["130"], how: fmt.Sprintf("the same; no placement of the same pods exceeds %.2f", w.bound)})
		got.cost(r, w.name, how)
		tuned, err := simulate(nodes, filepath.Join(dir, "openb_pod_list_"+w.name+".csv"), "42-43", "berth-tuned")
		if err != nil {
			return err
		}
		var tune []float64
		for _, one := range tuned.Policies[0].Runs {
			tune = append(tune, one.Tune)
		}
		r.add(figure{what: w.name + ": CPU of tuning in a run", values: tune, unit: "s", aim: 20, how: "`berth simulate --seeds 42-43 --policy berth-tuned`, the same workload"})
		gap += b["130"] - f["130"]
		tunedGap += tuned.Policies[0].Mean["130"] - f["130"]
		most += w.bound - f["130"]
	}
	r.add(figure{what: "part of the way from FGD to the bound, six workloads, at 130 %", values: []float64{100 * gap / most}, unit: "%", least: 60, how: "from the figures above"})
	r.add(figure{what: "the same with tuning", values: []float64{100 * tunedGap / most}, unit: "%", least: 75, how: "`berth-tuned` with seeds 42-43 against FGD with 42-51"})
	return nil
}

// benchCut measures what can be measured without the trace.
func benchCut(r *report) error {
	dir := filepath.Join("sim", "testdata")
	for _, name := range []string{"default", "gpuspec20", "multigpu30"} {
		got, err := simulate(filepath.Join(dir, "nodes.csv"), filepath.Join(dir, "pods_"+name+".csv"), "42-51", "berth,fgd")
		if err != nil {
			return err
		}
		how := "`berth simulate --seeds 42-51 --policy berth,fgd` on the cut of openb in sim/testdata"
		for _, at := range []string{"100", "130"} {
			r.add(figure{
				what: name + ", a twentieth: GPU allocated by Berth at " + at + " %", values: []float64{got.Policies[0].Mean[at]}, unit: "%",
				least: got.Policies[1].Mean[at], how: how + "; the aim is FGD's",
			})
		}
		got.cost(r, name+", a twentieth", how)
	}
	return nil
}

// cost adds what Berth's policy, the first, takes of CPU.
func (s *simulated) cost(r *report, name, how string) {
	var run, each []float64
	for _, one := range s.Policies[0].Runs {
		run = append(run, one.CPU)
		each = append(each, 1e6*one.CPU/float64(max(1, one.Decisions)))
	}
	r.add(figure{what: name + ": CPU of one run", values: run, unit: "s", aim: 0.3, how: how + "; the thread's own CPU"})
	r.add(figure{what: name + ": CPU of one decision", values: each, unit: "µs", aim: 20, how: "the same, over all decisions of a run"})
}

// simulate runs bin/berth simulate.
func simulate(nodes, pods, seeds, policies string) (*simulated, error) {
	args := []string{"simulate", "--protocol", "fgd", "--nodes", nodes, "--pods", pods, "--load", "1.3", "--seeds", seeds, "--policy", policies, "-o", "json"}
	cmd := exec.Command(program(), args...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("berth %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	var s simulated
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		return nil, fmt.Errorf("berth %s: read its output: %w", strings.Join(args, " "), err)
	}
	return &s, nil
}
