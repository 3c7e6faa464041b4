package rules_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"

	"berth.dev/berth/metrics/rules"
	"berth.dev/berth/metrics/store"
)

// hour is four GPUs of a node as a default exporter shows them: one works, one is held idle for three hours, one is free, and one was idle before the pod that has
// held it for 20 minutes. The second had an Xid 90 minutes ago.
func hour() []string {
	pods := []string{`, namespace="vision", pod="busy"`, `, namespace="nlp", pod="lazy"`, ``, `, namespace="nlp", pod="new"`}
	who := []string{`kind="Job", workload="busy", user="bob"`, `kind="Notebook", workload="lazy", user="ada"`, ``, `kind="Job", workload="new", user="eve"`}
	var out []string
	for i, pod := range pods {
		gpu := `gpu="` + string(rune('0'+i)) + `", UUID="GPU-` + string(rune('0'+i)) + `"`
		add := func(name, values string) { out = append(out, name+`{hostname="n1", `+gpu+pod+`} `+values) }
		util := []string{"93x200", "1x200", "0x200", "_x180 2x20"}[i]
		add("DCGM_FI_DEV_GPU_UTIL", util)
		add("DCGM_FI_DEV_MEM_COPY_UTIL", util)
		add("DCGM_FI_DEV_GPU_TEMP", "60x200")
		add("DCGM_FI_DEV_POWER_USAGE", "250x200")
		add("DCGM_FI_DEV_FB_USED", "39000x200")
		add("DCGM_FI_DEV_FB_FREE", "1000x200")
		if pod != "" {
			out = append(out, `berth_gpu_held{node="n1", queue="q", product="A100", `+gpu+pod+`, `+who[i]+`} `+[]string{"1x200", "1x200", "", "_x180 1x20"}[i])
		}
	}
	return append(out, `DCGM_FI_DEV_XID_ERRORS{hostname="n1", gpu="1", UUID="GPU-1", namespace="nlp", pod="lazy"} 0x110 31x90`,
		`berth_cost_usd_total{namespace="nlp", user="ada", queue="q", product="A100", what="held"} 0+0.05x200`, `kube_pod_labels{namespace="vision", pod="busy", label_job_name="resnet"} 1x200`)
}

// TestQueriesAsTheyAreFoundAndAsTheyShouldBe evaluates rules and queries of tutorials, and what Berth has in place of them.
//
// rows: GS-39 ML-63 NB-52
func TestQueriesAsTheyAreFoundAndAsTheyShouldBe(t *testing.T) {
	s := fill(t, hour(), 200*time.Minute)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	for _, tt := range []struct {
		name, expr string
		want       []string // parts of the series, one each
	}{
		{"cost of a job, as it is found: sum drops the label pod", `sum(DCGM_FI_DEV_GPU_UTIL) * (2/3600) * on(pod) group_left(job_name) kube_pod_labels{label_job_name!=""}`, nil},
		{"cost of a holder", `sum by (user) (increase(berth_cost_usd_total[1h]))`, []string{`{user="ada"} => 3`}},
		{"full memory, as it is found: exporters have no FB_TOTAL", `(DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_TOTAL) > 0.95`, nil},
		{"full memory", `max by (UUID) (DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)) > 0.95`, []string{"GPU-0", "GPU-1", "GPU-2", "GPU-3"}},
		{"idle GPUs, as they are found: free ones too", `DCGM_FI_DEV_GPU_UTIL < 10`, []string{"GPU-1", `gpu="2"`, "GPU-3"}},
		{"an Xid, as it is found: it is 90 minutes old", `DCGM_FI_DEV_XID_ERRORS > 0`, []string{"GPU-1"}},
		{"utilization by user", `avg by (user) (berth:gpu_util:ratio * on (UUID, namespace, pod) group_left (user) berth_gpu_held)`, []string{`user="ada"} => 0.01`, `user="bob"} => 0.93`, `user="eve"} => 0.02`}},
		{"utilization of a workload", `DCGM_FI_DEV_GPU_UTIL * on (UUID, namespace, pod) group_left (kind, workload, user) berth_gpu_held{workload="lazy"}`, []string{`kind="Notebook"`}},
		{"memory of a workload", `DCGM_FI_DEV_FB_USED * on (UUID, namespace, pod) group_left (kind, workload, user) berth_gpu_held{workload="lazy"}`, []string{`user="ada"`}},
		{"temperature of a workload", `DCGM_FI_DEV_GPU_TEMP * on (UUID, namespace, pod) group_left (kind, workload, user) berth_gpu_held{workload="lazy"}`, []string{`user="ada"`}},
		{"power of a workload", `DCGM_FI_DEV_POWER_USAGE * on (UUID, namespace, pod) group_left (kind, workload, user) berth_gpu_held{workload="lazy"}`, []string{`user="ada"`}},
		{"memory bandwidth of a workload", `DCGM_FI_DEV_MEM_COPY_UTIL * on (UUID, namespace, pod) group_left (kind, workload, user) berth_gpu_held{workload="lazy"}`, []string{`user="ada"`}},
		{"what is held idle", `ALERTS{alertname="GPUHeldIdle", alertstate="firing"}`, []string{`user="ada"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q, err := engine.NewInstantQuery(context.Background(), s, nil, tt.expr, time.Unix(200*60, 0))
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			v, err := q.Exec(context.Background()).Vector()
			if err != nil {
				t.Fatal(err)
			}
			if len(v) != len(tt.want) {
				t.Errorf("%d series; want %d: %v", len(v), len(tt.want), v)
			}
			for _, part := range tt.want {
				if !strings.Contains(v.String(), part) {
					t.Errorf("%s is missing of %v", part, v)
				}
			}
		})
	}
}

// fill plays series, with the rules over them, into a store.
func fill(t *testing.T, series []string, until time.Duration) *store.Store {
	s := store.New(store.Options{Step: time.Minute, Keep: 48 * time.Hour})
	playInto(t, s, rules.NewEvaluator(promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute}), s, rules.Rules()), series, until)
	return s
}
