package dashboards_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/metrics/dashboards"
	"berth.dev/berth/metrics/rules"
	"berth.dev/berth/metrics/store"
)

var update = flag.Bool("update", false, "write the files of the dashboards")

func files() map[string]string {
	out := map[string]string{"configmap.yaml": dashboards.ConfigMap(), "provisioning.yaml": dashboards.Provisioning()}
	for _, d := range dashboards.All() {
		out[d.UID+".json"] = d.JSON()
	}
	return out
}

func TestTheFilesAreMadeOfTheDashboards(t *testing.T) {
	for name, want := range files() {
		path := filepath.Join("../../deploy/dashboards", name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not what is made, %v: go test ./metrics/dashboards -update", path, err)
		}
	}
	var c struct {
		Metadata struct{ Labels map[string]string }
		Data     map[string]string
	}
	if err := yaml.Unmarshal([]byte(dashboards.ConfigMap()), &c); err != nil || c.Metadata.Labels["grafana_dashboard"] != "1" {
		t.Fatalf("%v, %v", err, c.Metadata)
	}
	for _, d := range dashboards.All() {
		var one map[string]any // the dashboard itself: a ConfigMap with it below a key "dashboard" is not loaded
		if err := json.Unmarshal([]byte(c.Data[d.UID+".json"]), &one); err != nil || one["title"] != d.Title || one["panels"] == nil {
			t.Errorf("%s in the ConfigMap: %v", d.UID, err)
		}
	}
}

// half is half an hour of two nodes, with all there can be: holders, one of them idle, a broken GPU, waits, queues, and cost.
var half = []string{
	`berth_node_gpus{node="n1", product="A100", state="held"} 2x40`, `berth_node_gpus{node="n1", product="A100", state="free"} 5x40`,
	`berth_node_gpus{node="n1", product="A100", state="unhealthy"} 1x40`, `berth_node_gpus{node="n1", product="A100", state="present"} 8x40`,
	`berth_gpu_held{node="n1", gpu="0", UUID="GPU-0", namespace="vision", pod="a", kind="Job", workload="a", user="bob", queue="vision"} 1x40`,
	`berth_gpu_held{node="n1", gpu="1", UUID="GPU-1", namespace="nlp", pod="b", kind="Notebook", workload="b", user="ada", queue="nlp"} 1x40`,
	`DCGM_FI_PROF_GR_ENGINE_ACTIVE{hostname="n1", gpu="0", UUID="GPU-0", namespace="vision", pod="a"} 0.9x40`,
	`DCGM_FI_PROF_GR_ENGINE_ACTIVE{hostname="n1", gpu="1", UUID="GPU-1", namespace="nlp", pod="b"} 0.01x40`,
	`DCGM_FI_DEV_GPU_TEMP{hostname="n1", gpu="0", UUID="GPU-0", namespace="vision", pod="a"} 90x40`,
	`DCGM_FI_DEV_POWER_USAGE{hostname="n1", gpu="0", UUID="GPU-0", namespace="vision", pod="a"} 300x40`,
	`DCGM_FI_DEV_FB_USED{hostname="n1", gpu="0", UUID="GPU-0", namespace="vision", pod="a"} 30000x40`,
	`berth_gpu_unhealthy{node="n1", gpu="7", UUID="GPU-7", xid="79"} 1x40`,
	`berth_queue_used_gpus{queue="nlp", gpus="any"} 1x40`, `berth_queue_nominal_gpus{queue="nlp", gpus="any"} 2x40`,
	`berth_queue_waiting_workloads{queue="nlp"} 1x40`, `berth_queue_oldest_wait_seconds{queue="nlp"} 0+60x40`,
	`berth_gpu_pod_wait_seconds{namespace="nlp", pod="c", kind="Job", workload="c", user="ada", queue="nlp", reason="WaitingForQuota"} 0+60x40`,
	`berth_gpu_seconds_total{product="A100", what="idle"} 0+300x40`,
	`berth_cost_usd_total{namespace="nlp", user="ada", queue="nlp", product="A100", what="held"} 0+0.05x40`, `berth_cost_usd_total{product="A100", what="idle"} 0+0.2x40`,
	`berth_queue_budget_used_ratio{queue="nlp"} 0.4x40`, `berth_queue_budget_forecast_ratio{queue="nlp"} 1.2x40`,
	`berth_node_priced{node="n2", product="T4"} 0x40`,
}

// rows: GS-41 AS-30 AS-40
func TestEachPanelShowsSomething(t *testing.T) {
	s := store.New(store.Options{Step: time.Minute})
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	e := rules.NewEvaluator(engine, s, rules.Rules())
	var end time.Time
	for i := range 40 {
		end = time.Date(2026, 11, 2, 9, i, 0, 0, time.UTC)
		var batch []store.Sample
		for _, text := range half {
			ls, values, err := parser.ParseSeriesDesc(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			r, _ := s.Series(ls)
			batch = append(batch, store.Sample{Series: r, Value: values[i].Value})
		}
		s.Append(end, batch)
		e.Evaluate(context.Background(), end)
	}
	for _, d := range dashboards.All() {
		for _, p := range d.Panels {
			q, err := engine.NewInstantQuery(context.Background(), s, nil, p.Expr, end)
			if err != nil {
				t.Errorf("%s, %s: %v", d.Title, p.Title, err)
				continue
			}
			v, err := q.Exec(context.Background()).Vector()
			if err != nil || len(v) == 0 {
				t.Errorf("%s, %s shows nothing, %v: %s", d.Title, p.Title, err, p.Expr)
			}
			q.Close()
		}
	}
}
