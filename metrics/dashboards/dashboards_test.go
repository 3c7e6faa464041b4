package dashboards_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/metrics/dashboards"
	"berth.dev/berth/metrics/rules"
	"berth.dev/berth/metrics/scrape"
	"berth.dev/berth/metrics/store"
	"berth.dev/berth/metrics/web"
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

// simulation is a day of two nodes, with all there can be: holders, one of them idle, a broken GPU, waits, queues, and cost.
var simulation = []string{
	`berth_node_gpus{node="n1", product="A100", state="held"} 2x1440`, `berth_node_gpus{node="n1", product="A100", state="free"} 5x1440`,
	`berth_node_gpus{node="n1", product="A100", state="unhealthy"} 1x1440`, `berth_node_gpus{node="n1", product="A100", state="present"} 8x1440`,
	`berth_gpu_held{node="n1", gpu="0", UUID="GPU-0", namespace="vision", pod="a", kind="Job", workload="a", user="bob", queue="vision"} 1x1440`,
	`berth_gpu_held{node="n1", gpu="1", UUID="GPU-1", namespace="nlp", pod="b", kind="Notebook", workload="b", user="ada", queue="nlp"} 1x1440`,
	`DCGM_FI_PROF_GR_ENGINE_ACTIVE{hostname="n1", gpu="0", UUID="GPU-0", namespace="vision", pod="a"} 0.9x1440`,
	`DCGM_FI_PROF_GR_ENGINE_ACTIVE{hostname="n1", gpu="1", UUID="GPU-1", namespace="nlp", pod="b"} 0.01x1440`,
	`DCGM_FI_DEV_GPU_TEMP{hostname="n1", gpu="0", UUID="GPU-0", namespace="vision", pod="a"} 90x1440`,
	`DCGM_FI_DEV_POWER_USAGE{hostname="n1", gpu="0", UUID="GPU-0", namespace="vision", pod="a"} 300x1440`,
	`DCGM_FI_DEV_FB_USED{hostname="n1", gpu="0", UUID="GPU-0", namespace="vision", pod="a"} 30000x1440`,
	`DCGM_FI_DEV_FB_FREE{hostname="n1", gpu="0", UUID="GPU-0", namespace="vision", pod="a"} 10000x1440`,
	`DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{hostname="n1", gpu="0", UUID="GPU-0", namespace="vision", pod="a"} 0.4x1440`,
	`berth_gpu_unhealthy{node="n1", gpu="7", UUID="GPU-7", xid="79"} 1x1440`,
	`berth_queue_used_gpus{queue="nlp", gpus="any"} 1x1440`, `berth_queue_nominal_gpus{queue="nlp", gpus="any"} 2x1440`,
	`berth_queue_waiting_workloads{queue="nlp"} 1x1440`, `berth_queue_oldest_wait_seconds{queue="nlp"} 0+60x1440`,
	`berth_gpu_pod_wait_seconds{namespace="nlp", pod="c", kind="Job", workload="c", user="ada", queue="nlp", reason="WaitingForQuota"} 0+60x1440`,
	`berth_gpu_seconds_total{product="A100", what="idle"} 0+60x1440`,
	`berth_cost_usd_total{namespace="nlp", user="ada", queue="nlp", product="A100", what="held"} 0+0.05x1440`, `berth_cost_usd_total{product="A100", what="idle"} 0+0.2x1440`,
	`berth_queue_budget_used_ratio{queue="nlp"} 0.4x1440`, `berth_queue_budget_forecast_ratio{queue="nlp"} 1.2x1440`,
	`berth_node_priced{node="n2", product="T4"} 0x1440`,
}

// simulated is a store with that day, in which the rules were evaluated.
func simulated(t *testing.T) (s *store.Store, engine *promql.Engine, e *rules.Evaluator, end time.Time) {
	t.Helper()
	s = store.New(store.Options{Step: time.Minute})
	engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	e = rules.NewEvaluator(engine, s, rules.Rules())
	var batch []store.Sample
	var all [][]parser.SequenceValue
	for _, text := range simulation {
		ls, values, err := parser.ParseSeriesDesc(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		r, _ := s.Series(ls)
		batch, all = append(batch, store.Sample{Series: r}), append(all, values)
	}
	for i := range 1440 {
		end = time.Date(2026, 11, 2, 0, i, 0, 0, time.UTC)
		for j := range batch {
			batch[j].Value = all[j][i].Value
		}
		if s.Append(end, batch); i%4 == 3 {
			e.Evaluate(context.Background(), end)
		}
	}
	return s, engine, e, end
}

// shows asks an expression at one moment, and reports whether that gives something.
func shows(t *testing.T, engine *promql.Engine, s *store.Store, expr string, at time.Time) bool {
	t.Helper()
	q, err := engine.NewInstantQuery(context.Background(), s, nil, expr, at)
	if err != nil {
		t.Errorf("%s: %v", expr, err)
		return true
	}
	defer q.Close()
	v, err := q.Exec(context.Background()).Vector()
	if err != nil {
		t.Errorf("%s: %v", expr, err)
	}
	return err != nil || len(v) > 0
}

// rows: GS-41 AS-30 AS-40
func TestEachPanelShowsSomething(t *testing.T) {
	s, engine, _, end := simulated(t)
	for _, d := range dashboards.All() {
		for _, p := range d.Panels {
			if !shows(t, engine, s, p.Expr, end) {
				t.Errorf("%s, %s shows nothing: %s", d.Title, p.Title, p.Expr)
			}
		}
	}
}

// TestEachPanelIsAnsweredAsGrafanaAsks sends what Grafana 11 sends for a panel of the files: a form by POST, of a range with a step, or of one moment for a table.
// rows: AS-51
func TestEachPanelIsAnsweredAsGrafanaAsks(t *testing.T) {
	s, engine, e, end := simulated(t)
	api := &web.Server{Engine: engine, Data: s, Rules: e, Now: func() time.Time { return end }, Names: func() map[string]scrape.Metadata { return nil }}
	h := api.Handler("/prometheus/")
	utilization := 0
	for _, d := range dashboards.All() {
		var file struct {
			Panels []struct {
				Title   string
				Targets []struct {
					Expr    string
					Instant bool
				}
			}
		}
		raw, err := os.ReadFile(filepath.Join("../../deploy/dashboards", d.UID+".json"))
		if err == nil {
			err = json.Unmarshal(raw, &file)
		}
		if err != nil || len(file.Panels) == 0 {
			t.Fatalf("%s: %d panels, %v", d.UID, len(file.Panels), err)
		}
		for _, p := range file.Panels {
			for _, target := range p.Targets {
				path, form := "query_range", url.Values{"query": {target.Expr}, "start": {fmt.Sprint(end.Add(-23 * time.Hour).Unix())}, "end": {fmt.Sprint(end.Unix())}, "step": {"120"}}
				if target.Instant {
					path, form = "query", url.Values{"query": {target.Expr}, "time": {fmt.Sprint(end.Unix())}}
				}
				r := httptest.NewRequest(http.MethodPost, "/prometheus/api/v1/"+path, strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				var answer struct {
					Status string
					Data   struct{ Result []struct{ Values []any } }
				}
				if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Status != "success" || len(answer.Data.Result) == 0 {
					t.Errorf("%s, %s: %v, %s", d.Title, p.Title, err, w.Body)
					continue
				}
				if points := len(answer.Data.Result[0].Values); !target.Instant && points < 600 {
					t.Errorf("%s, %s has %d points of a day", d.Title, p.Title, points)
				}
				if strings.Contains(target.Expr, "berth:gpu_util:ratio") {
					utilization++
				}
			}
		}
	}
	if utilization < 3 {
		t.Errorf("%d panels are about utilization", utilization)
	}
}

// TestTheQueriesOfPagesShowSomething asks what the pages tell people to ask.
// rows: GS-87 NB-53 GS-69
func TestTheQueriesOfPagesShowSomething(t *testing.T) {
	s, engine, _, end := simulated(t)
	for _, tt := range []struct {
		page, from, to string
		query          *regexp.Regexp
		least          int
		says           []string
	}{
		{"metrics.md", "# Which metrics matter", "\n# ", regexp.MustCompile("(?m)^\\| [^|`]+\\? \\| `(.+)` \\|$"), 12, []string{"docs/tasks/use-gpus-well.md"}},
		{"tasks/use-gpus-well.md", "# Use a GPU well", "", regexp.MustCompile("(?m)^berth query '(.+)'$"), 4, []string{
			"limits.cpu", "faster volume", "num_workers", "asynchronously", // of a low use
			"smaller batch", "mixed precision", "torch.cuda.empty_cache()", "nsys profile",
		}},
	} {
		raw, err := os.ReadFile("../../docs/" + tt.page)
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(raw), tt.from+"\n")
		if tt.to != "" {
			text, _, _ = strings.Cut(text, tt.to)
		}
		found := tt.query.FindAllStringSubmatch(text, -1)
		for _, m := range found {
			if expr := strings.ReplaceAll(m[1], `\|`, "|"); !shows(t, engine, s, expr, end) {
				t.Errorf("%s: %s gives nothing", tt.page, expr)
			}
		}
		if len(found) < tt.least {
			t.Errorf("%s has %d queries; want %d", tt.page, len(found), tt.least)
		}
		for _, says := range tt.says {
			if !strings.Contains(text, strings.TrimPrefix(says, "docs/")) {
				t.Errorf("%s does not say %s", tt.page, says)
			}
		}
	}
}
