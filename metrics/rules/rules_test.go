package rules_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"berth.dev/berth/metrics/rules"
	"berth.dev/berth/metrics/store"
)

var update = flag.Bool("update", false, "write the files of the rules, and the pages of the alerts")

const (
	held  = `berth_gpu_held{node="n1", kind="Job", queue="q", product="A100", `
	util  = `DCGM_FI_PROF_GR_ENGINE_ACTIVE{hostname="n1", `
	gpu0  = `gpu="0", UUID="GPU-0"`
	gpu1  = `gpu="1", UUID="GPU-1"`
	busy  = `namespace="vision", pod="busy"`
	lazy  = `namespace="nlp", pod="lazy"`
	byAda = `workload="lazy", user="ada"`
	byBob = `workload="busy", user="bob"`
)

// cases show each alert: the series of a minute each, and at which of them it fires. All others are its neighbors.
var cases = []struct {
	rule   string
	name   string
	series []string
	at     time.Duration
	fires  []string // parts of the labels of what fires
}{
	{"GPUHeldIdle", "the pod that has held a GPU for 90 minutes without using it, and not the one that has for 20, the one that works, or the free GPU", []string{
		held + gpu0 + `, ` + lazy + `, ` + byAda + `} 1x100`, util + gpu0 + `, ` + lazy + `} 0.02x100`,
		held + gpu1 + `, ` + busy + `, ` + byBob + `} 1x100`, util + gpu1 + `, ` + busy + `} 0.9x100`,
		held + `gpu="2", UUID="GPU-2", namespace="nlp", pod="new", workload="new", user="eve"} _x70 1x30`, util + `gpu="2", UUID="GPU-2", namespace="nlp", pod="new"} _x70 0x30`,
		util + `gpu="3", UUID="GPU-3"} 0x100`,
	}, 95 * time.Minute, []string{`pod="lazy"`}},
	{"GPUHeldIdle", "a GPU without the newer metric of utilization", []string{
		held + gpu0 + `, ` + lazy + `, ` + byAda + `} 0.25x100`, `DCGM_FI_DEV_GPU_UTIL{hostname="n1", ` + gpu0 + `, ` + lazy + `} 3x100`,
	}, 95 * time.Minute, []string{`user="ada"`}},
	{"NotebookIdleNotCulled", "the notebook, and not the job", []string{
		`berth_gpu_held{node="n1", kind="Notebook", queue="q", ` + gpu0 + `, ` + lazy + `, ` + byAda + `} 1x1600`, util + gpu0 + `, ` + lazy + `} 0x1600`,
		held + gpu1 + `, ` + busy + `, ` + byBob + `} 1x1600`, util + gpu1 + `, ` + busy + `} 0x1600`,
	}, 26 * time.Hour, []string{`kind="Notebook"`}},
	{"GPUSharedMemoryHigh", "the pod that uses most of a shared GPU that is full, and not a GPU that is full and not shared", []string{
		held + gpu0 + `, ` + lazy + `, ` + byAda + `} 0.5x30`, held + gpu0 + `, ` + busy + `, ` + byBob + `} 0.5x30`,
		`DCGM_FI_DEV_FB_USED{hostname="n1", ` + gpu0 + `, ` + lazy + `} 2000x30`, `DCGM_FI_DEV_FB_USED{hostname="n1", ` + gpu0 + `, ` + busy + `} 13000x30`,
		`DCGM_FI_DEV_FB_FREE{hostname="n1", ` + gpu0 + `} 1000x30`, `berth_gpu_memory_bytes{node="n1", ` + gpu0 + `} 16777216000x30`,
		held + gpu1 + `, ` + busy + `, ` + byBob + `} 1x30`, `DCGM_FI_DEV_FB_USED{hostname="n1", ` + gpu1 + `, ` + busy + `} 15900x30`,
		`DCGM_FI_DEV_FB_FREE{hostname="n1", ` + gpu1 + `, ` + busy + `} 100x30`, `berth_gpu_memory_bytes{node="n1", ` + gpu1 + `} 16777216000x30`,
	}, 20 * time.Minute, []string{`pod="busy"`}},
	{"GPUMemoryNearlyFull", "the GPU that is full, without FB_TOTAL", []string{
		`DCGM_FI_DEV_FB_USED{hostname="n1", ` + gpu0 + `, ` + busy + `} 39000x30`, `DCGM_FI_DEV_FB_FREE{hostname="n1", ` + gpu0 + `, ` + busy + `} 1000x30`,
		`DCGM_FI_DEV_FB_USED{hostname="n1", ` + gpu1 + `} 37000x30`, `DCGM_FI_DEV_FB_FREE{hostname="n1", ` + gpu1 + `} 3000x30`,
	}, 20 * time.Minute, []string{`UUID="GPU-0"`}},
	{"GPUHighTemperature", "the GPU that is hot, and not the one that was for two minutes", []string{
		`DCGM_FI_DEV_GPU_TEMP{hostname="n1", ` + gpu0 + `} 70x5 88x20`, `DCGM_FI_DEV_GPU_TEMP{hostname="n1", ` + gpu1 + `} 70x5 88x2 70x20`,
	}, 15 * time.Minute, []string{`UUID="GPU-0"`}},
	{"GPUXidReset", "a counter that is born with the error, a GPU that is unhealthy by one, and not the error of an application or an old one", []string{
		`berth_gpu_xid_errors_total{hostname="n1", ` + gpu0 + `, xid="79"} _x15 1x10`,
		`berth_gpu_xid_errors_total{hostname="n1", ` + gpu0 + `, xid="31"} _x15 1x10`,
		`berth_gpu_xid_errors_total{hostname="n2", ` + gpu0 + `, xid="48"} 1x30`,
		`berth_gpu_unhealthy{node="n3", gpu="2", UUID="GPU-2", xid="48"} 1x30`, `berth_gpu_unhealthy{node="n3", gpu="3", UUID="GPU-3", xid="0"} 1x30`,
	}, 18 * time.Minute, []string{`xid="79"`, `UUID="GPU-2"`}},
	{"GPUXidReset", "the same code once more", []string{`berth_gpu_xid_errors_total{hostname="n1", ` + gpu0 + `, xid="95"} 1x15 2x10`}, 18 * time.Minute, []string{`xid="95"`}},
	{"GPUXidWatch", "a memory row that is to be replaced, and not a reset", []string{
		`berth_gpu_xid_errors_total{hostname="n1", ` + gpu0 + `, xid="63"} _x15 1x10`, `berth_gpu_xid_errors_total{hostname="n1", ` + gpu1 + `, xid="79"} _x15 1x10`,
	}, 18 * time.Minute, []string{`xid="63"`}},
	{"GPUXidApplication", "an application's error, for ten minutes", []string{
		`berth_gpu_xid_errors_total{hostname="n1", ` + gpu0 + `, xid="31"} _x15 1x10`, `berth_gpu_xid_errors_total{hostname="n1", ` + gpu1 + `, xid="13"} _ 1x30`,
	}, 18 * time.Minute, []string{`xid="31"`}},
	{"GPURowRemapFailure", "the GPU without spare rows", []string{
		`DCGM_FI_DEV_ROW_REMAP_FAILURE{hostname="n1", ` + gpu0 + `} 1x5`, `DCGM_FI_DEV_ROW_REMAP_FAILURE{hostname="n1", ` + gpu1 + `} 0x5`,
	}, 3 * time.Minute, []string{`UUID="GPU-0"`}},
	{"GPUUncorrectableEcc", "rows that were remapped now, and not long ago", []string{
		`DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{hostname="n1", ` + gpu0 + `} 2x50 3x20`, `DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{hostname="n1", ` + gpu1 + `} 2x80`,
	}, time.Hour, []string{`UUID="GPU-0"`}},
	{"GPUNodeIdle", "the node without holders, and not one that is full or broken", []string{
		`berth_node_gpus{node="n1", product="A100", state="held"} 0x80`, `berth_node_gpus{node="n1", product="A100", state="free"} 8x80`,
		`berth_node_gpus{node="n2", product="A100", state="held"} 1x80`, `berth_node_gpus{node="n2", product="A100", state="free"} 7x80`,
		`berth_node_gpus{node="n3", product="A100", state="held"} 0x80`, `berth_node_gpus{node="n3", product="A100", state="free"} 0x80`,
	}, 70 * time.Minute, []string{`node="n1"`}},
	{"GPUUnhealthyDevices", "the node with GPUs that are not offered", []string{
		`berth_node_gpus{node="n1", product="A100", state="unhealthy"} 0x5 2x20`, `berth_node_gpus{node="n2", product="A100", state="unhealthy"} 0x25`,
	}, 15 * time.Minute, []string{`node="n1"`}},
	{"GPUCountMismatch", "the node that has lost one", []string{
		`berth_node_gpus{node="n1", product="A100", state="labeled"} 8x30`, `berth_node_gpus{node="n1", product="A100", state="present"} 7x30`,
		`berth_node_gpus{node="n2", product="A100", state="labeled"} 8x30`, `berth_node_gpus{node="n2", product="A100", state="present"} 8x30`,
		`berth_node_gpus{node="n3", product="A100", state="labeled"} 8x30`, `berth_node_gpu_devices{node="n3", kind="capacity"} 7x30`,
		`berth_node_gpus{node="n4", product="A100", state="labeled"} 8x30`, `berth_node_gpu_devices{node="n4", kind="capacity"} 0x30`,
	}, 20 * time.Minute, []string{`node="n1"`, `node="n3"`}},
	{"GPUDevicePluginDown", "the node whose devices are gone, and not one whose are few", []string{
		`berth_node_gpus{node="n1", product="A100", state="labeled"} 8x30`, `berth_node_gpu_devices{node="n1", kind="allocatable"} 8x5 0x25`, `berth_node_gpu_devices{node="n1", kind="capacity"} 8x30`,
		`berth_node_gpus{node="n2", product="A100", state="labeled"} 8x30`, `berth_node_gpu_devices{node="n2", kind="allocatable"} 1x30`,
	}, 20 * time.Minute, []string{`node="n1"`}},
	{"GPUTelemetryMissing", "the node whose exporter has ended", []string{
		`berth_node_gpus{node="n1", product="A100", state="present"} 8x40`, `DCGM_FI_DEV_GPU_TEMP{hostname="n1", ` + gpu0 + `} 40x5 stale`,
		`berth_node_gpus{node="n2", product="A100", state="present"} 8x40`, `DCGM_FI_DEV_GPU_TEMP{hostname="n2", ` + gpu0 + `} 40x40`,
	}, 25 * time.Minute, []string{`node="n1"`}},
	{"GPUTelemetryMissing", "the node without readings, beside one whose exporter writes Hostname, as those before 4.5 do", []string{
		`berth_node_gpus{node="n1", product="A100", state="present"} 8x40`,
		`berth_node_gpus{node="n2", product="A100", state="present"} 8x40`, `DCGM_FI_DEV_GPU_TEMP{Hostname="n2", ` + gpu0 + `} 40x40`,
	}, 25 * time.Minute, []string{`node="n1"`}},
	{"GPUHighTemperature", "a hot GPU whose exporter writes Hostname", []string{`DCGM_FI_DEV_GPU_TEMP{Hostname="n1", ` + gpu0 + `} 90x20`}, 15 * time.Minute, []string{`Hostname="n1"`}},
	{"GPUPodPending", "the pod that no node has room for, and not one that waits for quota, for its gang, or for a short time", []string{
		`berth_gpu_pod_wait_seconds{namespace="nlp", pod="big", kind="Job", workload="big", user="ada", queue="q", reason="Unschedulable"} 1200+60x30`,
		`berth_gpu_pod_wait_seconds{namespace="nlp", pod="poor", kind="Job", workload="poor", user="ada", queue="q", reason="WaitingForQuota"} 1200+60x30`,
		`berth_gpu_pod_wait_seconds{namespace="nlp", pod="gang-0", kind="Job", workload="gang", user="ada", queue="q", reason="WaitingForGang"} 1200+60x30`,
		`berth_gpu_pod_wait_seconds{namespace="nlp", pod="new", kind="Job", workload="new", user="ada", queue="q", reason="Unschedulable"} 0+60x30`,
	}, 15 * time.Minute, []string{`pod="big"`}},
	{"GPUGangStarved", "the gang, once and not for each pod", []string{
		`berth_gpu_pod_wait_seconds{namespace="nlp", pod="gang-0", kind="PyTorchJob", workload="gang", user="ada", queue="q", reason="WaitingForGang"} 7000+60x30`,
		`berth_gpu_pod_wait_seconds{namespace="nlp", pod="gang-1", kind="PyTorchJob", workload="gang", user="ada", queue="q", reason="WaitingForGang"} 7000+60x30`,
		`berth_gpu_pod_wait_seconds{namespace="nlp", pod="new-0", kind="PyTorchJob", workload="new", user="ada", queue="q", reason="WaitingForGang"} 0+60x30`,
	}, 15 * time.Minute, []string{`workload="gang"`}},
	{"GPUQueueWaitHigh", "the queue whose first has waited long", []string{
		`berth_queue_oldest_wait_seconds{queue="nlp"} 14300+60x10`, `berth_queue_oldest_wait_seconds{queue="vision"} 0x10`,
	}, 5 * time.Minute, []string{`queue="nlp"`}},
	{"GPUQuotaNearlyUsed", "the queue that is full, and not one without a nominal quota", []string{
		`berth_queue_used_gpus{queue="nlp", gpus="any"} 8x50`, `berth_queue_nominal_gpus{queue="nlp", gpus="any"} 8x50`,
		`berth_queue_used_gpus{queue="vision", gpus="any"} 4x50`, `berth_queue_nominal_gpus{queue="vision", gpus="any"} 8x50`,
		`berth_queue_used_gpus{queue="guests", gpus="any"} 4x50`, `berth_queue_nominal_gpus{queue="guests", gpus="any"} 0x50`,
	}, 40 * time.Minute, []string{`queue="nlp"`}},
	{"GPUBudgetForecast", "the queue that will have spent too much", []string{
		`berth_queue_budget_forecast_ratio{queue="nlp"} 1.3x80`, `berth_queue_budget_forecast_ratio{queue="vision"} 0.9x80`,
	}, 70 * time.Minute, []string{`queue="nlp"`}},
	{"GPUPriceUnknown", "the node without a price", []string{
		`berth_node_priced{node="n1", product="A100"} 0x80`, `berth_node_priced{node="n2", product="A100"} 1x80`,
	}, 70 * time.Minute, []string{`node="n1"`}},
	{"GPULedgerGap", "a ledger that was written for the last time 20 minutes ago", []string{`berth_ledger_written_timestamp_seconds 0x30`}, 20 * time.Minute, []string{`alertname="GPULedgerGap"`}},
	{"GPULedgerGap", "a ledger that is written", []string{`berth_ledger_written_timestamp_seconds 0+60x30`}, 20 * time.Minute, nil},
	{"GPUReadingsFull", "a store that leaves samples out", []string{`berth_readings_refused_total{job="berth"} 0x5 0+40x20`}, 15 * time.Minute, []string{`alertname="GPUReadingsFull"`}},
	{"GPUReadingsFull", "a store that once left some out, and has room now", []string{`berth_readings_refused_total{job="berth"} 400x30`}, 15 * time.Minute, nil},
}

// play runs the rules over the series of a case, minute by minute from 1970 on as promtool does.
func play(t *testing.T, series []string, until time.Duration) *rules.Evaluator {
	t.Helper()
	s := store.New(store.Options{Step: time.Minute, Keep: 48 * time.Hour})
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true})
	e := rules.NewEvaluator(engine, s, rules.Rules())
	playInto(t, s, e, series, until)
	for name, err := range e.Last().Errs {
		t.Errorf("%s: %v", name, err)
	}
	return e
}

func playInto(t *testing.T, s *store.Store, e *rules.Evaluator, series []string, until time.Duration) {
	t.Helper()
	type line struct {
		series *store.Series
		values []parser.SequenceValue
	}
	var lines []line
	for _, text := range series {
		ls, values, err := parser.ParseSeriesDesc(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		r, _ := s.Series(ls)
		lines = append(lines, line{r, values})
	}
	for i := range int(until/time.Minute) + 1 { // the store has nothing of the first moment of 1970
		at := time.Unix(int64(i)*60, 0)
		var batch []store.Sample
		for _, l := range lines {
			if i < len(l.values) && !l.values[i].Omitted {
				batch = append(batch, store.Sample{Series: l.series, Value: l.values[i].Value})
			}
		}
		s.Append(at, batch)
		if until < 12*time.Hour || i%5 == 0 { // of a long time a part is enough
			e.Evaluate(context.Background(), at)
		}
	}
}

// firing are the alerts of a rule that fire.
func firing(e *rules.Evaluator, rule string) (out []rules.Alert) {
	for _, a := range e.Alerts() {
		if a.Rule.Name == rule && a.State == rules.Firing {
			out = append(out, a)
		}
	}
	return out
}

// TestEachAlertFiresAtTheRightOneAndIsSilentAtItsNeighbor plays the cases.
//
// rows: GS-31 GS-43 GS-44 GS-45 ML-77
func TestEachAlertFiresAtTheRightOneAndIsSilentAtItsNeighbor(t *testing.T) {
	shown := map[string]bool{}
	for _, tt := range cases {
		t.Run(tt.rule+": "+tt.name, func(t *testing.T) {
			got := firing(play(t, tt.series, tt.at), tt.rule)
			if len(got) != len(tt.fires) {
				t.Errorf("fires for %d; want %d: %v", len(got), len(tt.fires), got)
			}
			for _, part := range tt.fires {
				if !slices.ContainsFunc(got, func(a rules.Alert) bool { return strings.Contains(a.Labels.String(), part) }) {
					t.Errorf("does not fire for %s: %v", part, got)
				}
			}
			for _, a := range got {
				if text := a.Annotations["summary"]; text == "" || strings.Contains(text, "{{") || strings.Contains(text, "no value") || strings.Contains(text, " of  ") {
					t.Errorf("its summary is %q", text)
				}
			}
		})
		shown[tt.rule] = shown[tt.rule] || len(tt.fires) > 0
	}
	for _, r := range rules.Rules() {
		if !shown[r.Name] {
			t.Errorf("no case shows %s", r.Name)
		}
	}
}

func TestBeforeItsTimeAnAlertIsPending(t *testing.T) {
	e := play(t, []string{`berth_node_priced{node="n1", product="A100"} 0x80`}, 50*time.Minute)
	got := e.Alerts()
	if len(got) != 1 || got[0].State != rules.Pending {
		t.Errorf("alerts %v; want one that is pending", got)
	}
}

// files are what is made of the rules.
func files() map[string]string {
	out := map[string]string{"deploy/rules/berth-gpus.yaml": rules.Plain(), "deploy/rules/berth-gpus-prometheusrule.yaml": rules.Object(), "docs/alerts/README.md": rules.Index()}
	for _, r := range rules.Rules() {
		out[r.Page()] = r.PageText()
	}
	return out
}

func TestTheFilesAreMadeOfTheRules(t *testing.T) {
	all := files()
	all["deploy/rules/berth-gpus-test.yaml"] = promtoolTests(t)
	for name, want := range all {
		path := filepath.Join("../..", name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not what the rules make, %v: go test ./metrics/rules -update", name, err)
		}
	}
	pages, _ := filepath.Glob("../../docs/alerts/*.md")
	if len(pages) != len(rules.Rules())+1 {
		t.Errorf("%d pages in docs/alerts; want one for each alert and README.md", len(pages))
	}
}

// promtoolTests is the cases as tests of promtool, with what the evaluator says: promtool has to say the same.
func promtoolTests(t *testing.T) string {
	b := &strings.Builder{}
	b.WriteString("# Made from the cases of metrics/rules/rules_test.go: `promtool test rules deploy/rules/berth-gpus-test.yaml` runs them.\n" +
		"rule_files: [berth-gpus.yaml]\nevaluation_interval: 1m\ntests:\n")
	for _, tt := range cases {
		fmt.Fprintf(b, "- name: %s\n  interval: 1m\n  input_series:\n", strconv.Quote(tt.rule+": "+tt.name))
		for _, s := range tt.series {
			i := strings.LastIndex(s, "} ") + 1
			if i == 0 {
				i = strings.Index(s, " ")
			}
			fmt.Fprintf(b, "  - {series: %s, values: %s}\n", strconv.Quote(s[:i]), strconv.Quote(strings.TrimSpace(s[i:])))
		}
		fmt.Fprintf(b, "  alert_rule_test:\n  - eval_time: %s\n    alertname: %s\n    exp_alerts:\n", model.Duration(tt.at), tt.rule)
		for _, a := range firing(play(t, tt.series, tt.at), tt.rule) {
			b.WriteString("    - exp_labels:\n")
			a.Labels.Range(func(l labels.Label) {
				if l.Name != "alertname" {
					fmt.Fprintf(b, "        %s: %s\n", l.Name, strconv.Quote(l.Value))
				}
			})
			b.WriteString("      exp_annotations:\n")
			for _, name := range []string{"summary", "runbook"} {
				fmt.Fprintf(b, "        %s: %s\n", name, strconv.Quote(a.Annotations[name]))
			}
		}
	}
	return b.String()
}

// rows: GS-46
// TestPromtoolAgrees runs Prometheus' own promtool over the files, where there is one.
func TestPromtoolAgrees(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if promtool, err = filepath.Abs("../../bin/promtool"); err == nil {
			_, err = os.Stat(promtool)
		}
	}
	if err != nil {
		t.Skip("promtool is not installed (tools/prometheus.sh brings Debian's), so only the engine in this program has tried the rules")
	}
	for _, args := range [][]string{{"check", "rules", "berth-gpus.yaml"}, {"test", "rules", "berth-gpus-test.yaml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "../../deploy/rules"
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		t.Logf("promtool %s: %s", strings.Join(args, " "), regexp.MustCompile(`\s+`).ReplaceAllString(string(out), " "))
	}
}
