// Package dashboards has Grafana's dashboards about GPUs, and writes them as files to import, and as a ConfigMap for Grafana's sidecar.
package dashboards

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Panel is one chart or table.
type Panel struct {
	Title  string
	Kind   string // timeseries, stat, table, or bargauge
	Unit   string // as Grafana names units; "" is a plain number
	Expr   string
	Legend string // such as {{user}}; "" is the labels
}

// Dashboard is one page.
type Dashboard struct {
	UID, Title string
	Panels     []Panel
}

// All returns the dashboards.
func All() []Dashboard {
	return []Dashboard{
		{"berth-fleet", "Berth: fleet", []Panel{
			{"GPUs held, free, and unhealthy", "timeseries", "", `sum by (state) (berth_node_gpus{state=~"held|free|unhealthy"})`, "{{state}}"},
			{"GPUs held", "stat", "percentunit", `sum(berth_node_gpus{state="held"}) / sum(berth_node_gpus{state="present"})`, ""},
			{"Use of held GPUs", "stat", "percentunit", `avg(berth:gpu_util:ratio{pod!=""})`, ""},
			{"Use by node", "timeseries", "percentunit", `avg by (hostname, Hostname) (berth:gpu_util:ratio)`, "{{hostname}}{{Hostname}}"},
			{"Temperature: the hottest GPU of each node", "timeseries", "celsius", `max by (hostname, Hostname) (DCGM_FI_DEV_GPU_TEMP)`, "{{hostname}}{{Hostname}}"},
			{"Power by node", "timeseries", "watt", `sum by (hostname, Hostname) (max by (UUID, hostname, Hostname) (DCGM_FI_DEV_POWER_USAGE))`, "{{hostname}}{{Hostname}}"},
			{"Unhealthy GPUs", "table", "", `berth_gpu_unhealthy`, ""},
			{"Alerts", "table", "", `ALERTS{alertstate="firing"}`, ""},
		}},
		{"berth-holders", "Berth: holders and waste", []Panel{
			{"GPUs held by user", "timeseries", "", `sum by (user) (berth_gpu_held)`, "{{user}}"},
			{"GPUs held by namespace", "timeseries", "", `sum by (namespace) (berth_gpu_held)`, "{{namespace}}"},
			{"Use of what they hold, by user", "timeseries", "percentunit", `avg by (user) (berth:gpu_util:ratio * on (UUID, namespace, pod) group_left (user) berth_gpu_held)`, "{{user}}"},
			{"Held and used less than 10 %", "table", "", `sum by (namespace, kind, workload, user) (berth_gpu_held and on (UUID, namespace, pod) (berth:gpu_util:ratio < 0.1))`, ""},
			{"Memory of holders", "table", "decmbytes", `max by (namespace, pod, UUID) (DCGM_FI_DEV_FB_USED{pod!=""})`, ""},
			{"GPU time that was idle", "timeseries", "", `sum(rate(berth_gpu_seconds_total{what="idle"}[15m]))`, "GPUs"},
		}},
		{"berth-queues", "Berth: queues and waits", []Panel{
			{"Quota in use", "bargauge", "percentunit", `max by (queue, gpus) (berth_queue_used_gpus / (berth_queue_nominal_gpus > 0))`, "{{queue}} {{gpus}}"},
			{"Workloads that wait for quota", "timeseries", "", `max by (queue) (berth_queue_waiting_workloads)`, "{{queue}}"},
			{"The longest wait for quota", "timeseries", "s", `max by (queue) (berth_queue_oldest_wait_seconds)`, "{{queue}}"},
			{"Pods that wait, by reason", "timeseries", "", `count by (reason) (berth_gpu_pod_wait_seconds)`, "{{reason}}"},
			{"Pods that wait longest", "table", "s", `topk(20, berth_gpu_pod_wait_seconds)`, ""},
		}},
		{"berth-cost", "Berth: cost by team", []Panel{
			{"Cost of the last hour by namespace", "bargauge", "currencyUSD", `sum by (namespace) (increase(berth_cost_usd_total{what="held"}[1h]))`, "{{namespace}}"},
			{"Cost an hour by queue", "timeseries", "currencyUSD", `sum by (queue) (rate(berth_cost_usd_total{what="held"}[15m])) * 3600`, "{{queue}}"},
			{"Cost an hour by user", "timeseries", "currencyUSD", `sum by (user) (rate(berth_cost_usd_total{what="held"}[15m])) * 3600`, "{{user}}"},
			{"Held, idle, and stranded", "timeseries", "currencyUSD", `sum by (what) (rate(berth_cost_usd_total[15m])) * 3600`, "{{what}}"},
			{"Budget that is spent", "bargauge", "percentunit", `max by (queue) (berth_queue_budget_used_ratio)`, "{{queue}}"},
			{"Budget at the end of the month", "bargauge", "percentunit", `max by (queue) (berth_queue_budget_forecast_ratio)`, "{{queue}}"},
			{"Nodes without a price", "table", "", `berth_node_priced == 0`, ""},
		}},
	}
}

// JSON is a dashboard as Grafana imports it: it asks for the data source.
func (d *Dashboard) JSON() string {
	source := map[string]string{"type": "prometheus", "uid": "${datasource}"}
	panels := make([]any, 0, len(d.Panels))
	for i, p := range d.Panels {
		target := map[string]any{"refId": "A", "datasource": source, "expr": p.Expr}
		if p.Legend != "" {
			target["legendFormat"] = p.Legend
		}
		if p.Kind == "table" {
			target["format"], target["instant"] = "table", true
		}
		panels = append(panels, map[string]any{
			"id": i + 1, "type": p.Kind, "title": p.Title, "datasource": source, "targets": []any{target},
			"gridPos":     map[string]int{"x": i % 2 * 12, "y": i / 2 * 8, "w": 12, "h": 8},
			"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.Unit}, "overrides": []any{}},
		})
	}
	raw, err := json.MarshalIndent(map[string]any{
		"uid": d.UID, "title": d.Title, "tags": []string{"berth", "gpu"}, "schemaVersion": 39, "editable": true, "refresh": "30s",
		"time":   map[string]string{"from": "now-6h", "to": "now"},
		"panels": panels,
		"templating": map[string]any{"list": []any{map[string]any{
			"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
		}}},
	}, "", "  ")
	if err != nil {
		panic(err) // of maps of text and numbers there is none
	}
	return string(raw) + "\n"
}

// ConfigMap is all dashboards for the sidecar of Grafana's chart, which loads ConfigMaps with the label grafana_dashboard.
func ConfigMap() string {
	b := &strings.Builder{}
	b.WriteString("# Made from metrics/dashboards: `go test ./metrics/dashboards -update` writes it.\napiVersion: v1\nkind: ConfigMap\n" +
		"metadata:\n  name: berth-dashboards\n  namespace: monitoring\n  labels: {grafana_dashboard: \"1\"}\ndata:\n")
	for _, d := range All() {
		fmt.Fprintf(b, "  %s.json: |\n", d.UID)
		for line := range strings.Lines(d.JSON()) {
			b.WriteString("    " + line)
		}
	}
	return b.String()
}

// Provisioning has Grafana load dashboards from a folder of its machine.
func Provisioning() string {
	return "# For /etc/grafana/provisioning/dashboards: Grafana loads the JSON files of the folder.\napiVersion: 1\nproviders:\n- name: berth\n  folder: GPUs\n  type: file\n  options: {path: /var/lib/grafana/dashboards/berth}\n"
}
