package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/queue"
)

// Severity is how soon a person should look.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // at once
	Warning  Severity = "warning"  // today
	Info     Severity = "info"     // when there is time: it concerns cost or use, not work that fails
)

// Record is a recording rule: a name for an expression.
type Record struct{ Name, Expr string }

// Rule is an alert.
type Rule struct {
	Name     string
	Expr     string
	For      time.Duration // for which it has to hold
	Severity Severity
	Summary  string // a template of Prometheus: one line that names what, where, and who
	// The page of the alert says what it means, what to look at, what to do, and when it fires although all is well. They are Markdown.
	Means, Look, Do, Spurious string
}

// Page is the page of an alert, below the repository.
func (r *Rule) Page() string { return "docs/alerts/" + r.Name + ".md" }

// holder are the labels that say who holds what.
const holder = "node, gpu, UUID, namespace, pod, kind, workload, user, queue"

// host is the node of a GPU in a summary. Exporters name it hostname, and those before 4.5 Hostname; Berth's own series name it node.
const host = "{{ with $labels.hostname }}{{ . }}{{ else }}{{ with $labels.Hostname }}{{ . }}{{ else }}{{ $labels.node }}{{ end }}{{ end }}"

// Records returns the recording rules, which the alerts are made of.
func Records() []Record {
	by := "max by (UUID, GPU_I_ID, hostname, Hostname, namespace, pod)"
	return []Record{{
		// GPUs with MIG have no DCGM_FI_DEV_GPU_UTIL, and old GPUs no DCGM_FI_PROF_GR_ENGINE_ACTIVE.
		Name: "berth:gpu_util:ratio",
		Expr: by + " (DCGM_FI_PROF_GR_ENGINE_ACTIVE) or " + by + " (DCGM_FI_DEV_GPU_UTIL / 100)",
	}}
}

// idle is an expression for what pods hold and have used less than a part of for a while: matched by GPU and pod, so neither a free GPU nor the
// past of a GPU under another pod counts.
func idle(which, window string, below float64) string {
	return fmt.Sprintf(`max by (%s) (berth_gpu_held{pod!=""%s} > 0) and on (UUID, namespace, pod) (max by (UUID, namespace, pod) (avg_over_time(berth:gpu_util:ratio{pod!=""}[%s])) < %g)`,
		holder, which, window, below)
}

// xids are those of some classes of NVIDIA's catalog, as a regular expression.
func xids(classes ...gpu.XidClass) string {
	var out []string
	for code := 1; code < 200; code++ {
		if slices.Contains(classes, gpu.Xid(code).Class) {
			out = append(out, strconv.Itoa(code))
		}
	}
	return strings.Join(out, "|")
}

// newXids is an expression for Xids in the last ten minutes. The agent's counter of a code begins when the code is first seen, where increase sees nothing.
func newXids(matcher string) string {
	m := "berth_gpu_xid_errors_total{" + matcher + "}"
	return fmt.Sprintf("(%s unless %s offset 10m) or increase(%s[10m]) > 0", m, m, m)
}

// waits is an expression for pods that wait longer than seconds.
func waits(matcher string, seconds int) string {
	return fmt.Sprintf("max by (namespace, pod, kind, workload, user, queue, reason) (berth_gpu_pod_wait_seconds{%s}) > %d", matcher, seconds)
}

// Rules returns all alerts, in the order of their pages: of holders, of GPUs, of nodes, of queues, and of cost.
func Rules() []Rule {
	return slices.Concat(holders(), gpus(), nodes(), queues(), costs())
}

func holders() []Rule {
	return []Rule{
		{
			Name: "GPUHeldIdle", Severity: Warning, For: time.Hour, Expr: idle("", "10m", 0.1),
			Summary:  "{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.workload }}{{ with $labels.user }} of {{ . }}{{ end }} holds GPU {{ $labels.gpu }} of {{ $labels.node }} and uses less than 10% of it",
			Means:    "A pod holds a GPU, or a part of one, and for an hour has used less than 10% of that. Other pods cannot have the GPU, and it costs the same as a busy one.",
			Look:     "`berth idle` lists idle holders with what they cost. `berth gpus` shows the GPU now. `kubectl logs` of the pod may show that it waits for data, has crashed without ending, or has finished.",
			Do:       "Ask the user in the alert. If the pod works and its GPU still waits for data, [it can do something about that](../tasks/use-gpus-well.md). Stop a notebook with `berth notebook stop`, delete what has finished, or give the workload a share of a GPU instead of a whole one ([GPU requests](../reference/gpu-requests.md)). Queues can [stop idle notebooks](../queues.md) by themselves.",
			Spurious: "A model server without requests is idle and may be meant to be. Give it a share, or silence the alert for its namespace.",
		},
		{
			Name: "NotebookIdleNotCulled", Severity: Info, For: 24 * time.Hour, Expr: idle(`, kind="Notebook"`, "1h", 0.01),
			Summary:  "Notebook {{ $labels.namespace }}/{{ $labels.workload }}{{ with $labels.user }} of {{ . }}{{ end }} holds GPU {{ $labels.gpu }} of {{ $labels.node }} and does not use it",
			Means:    "A notebook has held a GPU for a day without using it, and nothing has stopped it: idle notebooks are not stopped in this cluster, or this one is kept.",
			Look:     "`berth idle` and `berth notebook list`. `berth doctor` says if idle notebooks cannot be stopped because their servers or GPUs cannot be read.",
			Do:       "Switch the stopping of idle notebooks on, or stop this one with `berth notebook stop`.",
			Spurious: "A notebook whose owner has set it to be kept.",
		},
		{
			Name: "GPUSharedMemoryHigh", Severity: Warning, For: 5 * time.Minute,
			Expr: `topk by (UUID) (1, max by (UUID, hostname, Hostname, namespace, pod) (DCGM_FI_DEV_FB_USED{pod!="", GPU_I_ID=""}))` +
				` and on (UUID) (1 - min by (UUID) (DCGM_FI_DEV_FB_FREE{GPU_I_ID=""}) * 1048576 / on (UUID) max by (UUID) (berth_gpu_memory_bytes) > 0.9)` +
				` and on (UUID) (count by (UUID) (berth_gpu_held{pod!=""} > 0) > 1)`,
			Summary:  "The memory of a shared GPU of " + host + " is over 90% full; {{ $labels.namespace }}/{{ $labels.pod }} uses most: {{ $value }} MiB",
			Means:    "Several pods share a GPU, and its memory is nearly full. Shares by time-slicing have no bounds: the next allocation of any of them fails with an out-of-memory error.",
			Look:     "`berth gpus` shows the pods that share the GPU. `kubectl exec POD -- nvidia-smi` shows its memory.",
			Do:       "Have the pod in the alert use less: a smaller batch, or a framework that does not reserve all memory (`--gpu-memory-utilization` of vLLM, `XLA_PYTHON_CLIENT_MEM_FRACTION` of JAX). Ask for shares by memory: then pods that do not fit are not placed together.",
			Spurious: "NVIDIA's exporter reports the memory of the whole GPU for each pod that shares it; then the pod named is any of them. Berth's agent divides it.",
		},
		{
			Name: "GPUMemoryNearlyFull", Severity: Info, For: 10 * time.Minute,
			Expr:     `max by (UUID, gpu, hostname, Hostname, namespace, pod) (DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)) > 0.95`,
			Summary:  "The memory of GPU {{ $labels.gpu }} of " + host + "{{ with $labels.pod }}, which {{ $labels.namespace }}/{{ . }} holds,{{ end }} is {{ $value | humanizePercentage }} full",
			Means:    "More than 95% of the memory of a GPU is used.",
			Look:     "`kubectl logs` of the pod for out-of-memory errors.",
			Do:       "Nothing, unless the pod fails. Then use a smaller batch or a GPU with more memory.",
			Spurious: "vLLM, JAX, and TensorFlow reserve nearly all memory at once, whatever they need. That is why the alert is only for information.",
		},
	}
}

func gpus() []Rule {
	labels := "GPU {{ with $labels.gpu }}{{ . }}{{ else }}{{ $labels.UUID }}{{ end }} of " + host
	broken := xids(gpu.XidNote, gpu.XidApplication)
	return []Rule{
		{
			Name: "GPUHighTemperature", Severity: Warning, For: 5 * time.Minute,
			Expr:     `max by (UUID, gpu, hostname, Hostname, namespace, pod) (DCGM_FI_DEV_GPU_TEMP) > 85`,
			Summary:  labels + " is at {{ $value }} °C",
			Means:    "A GPU has been hotter than 85 °C for five minutes. GPUs slow down near 90 °C and stop above it.",
			Look:     "The temperature of the other GPUs of the node: if all are hot, it is the room or a fan; if one is, it is that GPU.",
			Do:       "Check fans and the inlet temperature. Cordon the node if the temperature goes on rising.",
			Spurious: "Some models are made for more; NVIDIA's data sheet of the model says.",
		},
		{
			Name: "GPUXidReset", Severity: Critical,
			Expr:    `(` + newXids(`xid!~"`+broken+`"`) + `) or berth_gpu_unhealthy{xid!~"0|` + broken + `"}`,
			Summary: labels + " has reported Xid {{ $labels.xid }}: it has to be reset, restarted, or repaired",
			Means:   "The driver has reported an error after which the GPU cannot be used as it is. NVIDIA's catalog asks for a reset, a restart of the machine, or a person who looks.",
			Look:    "`berth doctor` and `berth nodes` show the GPU; `berth explain` the code. `dmesg | grep -i xid` on the node has the driver's lines.",
			Do:      "Drain the node, reset the GPU (`nvidia-smi --gpu-reset`) or restart the machine. If the code comes back, ask the vendor.",
		},
		{
			Name: "GPUXidWatch", Severity: Warning, Expr: newXids(`xid=~"` + xids(gpu.XidNote) + `"`),
			Summary:  labels + " has reported Xid {{ $labels.xid }}, which is to be watched",
			Means:    "The driver has reported something that needs nothing at once: a memory row that is replaced at the next reset, or a rate of corrected errors.",
			Look:     "How often it comes: `increase(berth_gpu_xid_errors_total[1d])`.",
			Do:       "Reset the GPU when it is free, if the code is 63. Otherwise nothing, unless it comes often.",
			Spurious: "Xid 43 is written whenever an application is stopped after its own fault.",
		},
		{
			Name: "GPUXidApplication", Severity: Info, Expr: newXids(`xid=~"` + xids(gpu.XidApplication) + `"`),
			Summary: labels + " has reported Xid {{ $labels.xid }}: an application did something wrong",
			Means:   "An application used memory that it does not have, or was stopped. The GPU is well.",
			Look:    "`kubectl logs --previous` of the pod that held the GPU; `berth gpus` shows it.",
			Do:      "Tell the owner of the pod. If the code comes with different applications on the same GPU only, suspect the GPU.",
		},
		{
			Name: "GPURowRemapFailure", Severity: Critical, Expr: `max by (UUID, gpu, hostname, Hostname) (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0`,
			Summary: labels + " has a bad memory row that cannot be replaced",
			Means:   "A memory row is bad and there is no spare row left for it. NVIDIA replaces such GPUs.",
			Look:    "`nvidia-smi -q -d ROW_REMAPPER` on the node.",
			Do:      "Cordon the node, and have the GPU replaced.",
		},
		{
			Name: "GPUUncorrectableEcc", Severity: Warning,
			Expr:    `max by (UUID, gpu, hostname, Hostname) (increase(DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS[1h]) > 0 or increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[1h]) > 0)`,
			Summary: labels + " has had memory errors that cannot be corrected",
			Means:   "Memory of the GPU was corrupted in the last hour in a way that cannot be corrected. The pods that ran there may have failed, or have wrong results.",
			Look:    "Alerts about Xids 48, 63, 94, and 95 of the same GPU; `nvidia-smi -q -d ECC` on the node.",
			Do:      "Reset the GPU when it is free. If it comes back within a month, have it replaced.",
		},
	}
}

func nodes() []Rule {
	state := func(s string) string { return `max by (node) (berth_node_gpus{state="` + s + `"})` }
	return []Rule{
		{
			Name: "GPUNodeIdle", Severity: Info, For: time.Hour,
			Expr:     state("held") + " == 0 and " + state("free") + " > 0",
			Summary:  "No pod holds a GPU of {{ $labels.node }}",
			Means:    "A node with GPUs is up and paid for, and no pod has used its GPUs for an hour.",
			Look:     "`berth nodes` shows its price; `berth queue` and `berth why` whether anything waits that could run there.",
			Do:       "Remove the node or have its pool [shrink](../decisions/2026-11-22-pools-that-grow.md), if that is possible.",
			Spurious: "Nodes that are bought cost the same either way.",
		},
		{
			Name: "GPUUnhealthyDevices", Severity: Warning, For: 5 * time.Minute, Expr: state("unhealthy") + " > 0",
			Summary: "{{ $value }} GPUs of {{ $labels.node }} are unhealthy and are not given to pods",
			Means:   "The device plugin reports GPUs as unhealthy: the node has more than it offers.",
			Look:    "`berth doctor` names the GPUs and why; alerts about Xids of the same node.",
			Do:      "See the page of the alert about the Xid. The GPUs are offered again when they have recovered.",
		},
		{
			Name: "GPUCountMismatch", Severity: Warning, For: 15 * time.Minute,
			Expr:    state("labeled") + " > " + state("present") + " or " + state("labeled") + ` > on (node) (max by (node) (berth_node_gpu_devices{kind="capacity"}) > 0)`,
			Summary: "{{ $labels.node }} is labeled with {{ $value }} GPUs, and fewer are there",
			Means:   "The label nvidia.com/gpu.count says that the node has more GPUs than are present: one has been lost since the label was written.",
			Look:    "`nvidia-smi -L` on the node; `dmesg` for Xid 79.",
			Do:      "Drain and restart the node. If the GPU stays away, check its power and seating.",
		},
		{
			Name: "GPUDevicePluginDown", Severity: Critical, For: 10 * time.Minute,
			Expr:    state("labeled") + ` > 0 unless on (node) max by (node) (berth_node_gpu_devices{kind="allocatable"}) > 0`,
			Summary: "{{ $labels.node }} has {{ $value }} GPUs, and offers none",
			Means:   "A node is labeled as having GPUs, and pods can get none of them: its device plugin does not run, or all of its GPUs are unhealthy.",
			Look:    "`berth doctor`; `kubectl get pods -A -o wide --field-selector spec.nodeName=NODE`; `berth agent doctor` on the node.",
			Do:      "Restart the device plugin. See what its log says about the driver.",
		},
		{
			Name: "GPUTelemetryMissing", Severity: Warning, For: 15 * time.Minute,
			Expr:    state("present") + ` > 0 unless on (node) label_replace(label_replace(count by (hostname, Hostname) (DCGM_FI_DEV_GPU_TEMP), "node", "$1", "hostname", "(.+)"), "node", "$1", "Hostname", "(.+)")`,
			Summary: "{{ $labels.node }} has {{ $value }} GPUs, and nothing reports how they are",
			Means:   "There are no readings of the GPUs of a node. Other alerts about them cannot fire, and idle notebooks there are not stopped.",
			Look:    "`up{job=\"gpu-exporter\"}`; the pod of the exporter on the node; who may [read metrics](../tasks/read-metrics-securely.md).",
			Do:      "Start or restart the exporter: DCGM's, or Berth's agent.",
		},
	}
}

func queues() []Rule {
	quotaWait, gangWait := queue.Quota.Code(), queue.Gang.Code()
	return []Rule{
		{
			Name: "GPUPodPending", Severity: Warning, Expr: waits(`reason!~"`+quotaWait+`|`+gangWait+`"`, 1800),
			Summary:  "{{ $labels.namespace }}/{{ $labels.pod }}{{ with $labels.user }} of {{ . }}{{ end }} has waited {{ $value | humanizeDuration }} for a GPU: {{ $labels.reason }}",
			Means:    "A pod asks for GPUs and has had no node for half an hour. Pods that wait for the quota of their queue do not count, since that is what queues are for, nor do gangs.",
			Look:     "`berth why POD` says why, on each node, and what would help.",
			Do:       "Follow `berth why`: nodes that are full need time or more nodes, requests that cannot be met have to be changed.",
			Spurious: "A cluster that is meant to be full.",
		},
		{
			Name: "GPUGangStarved", Severity: Warning, Expr: "max by (namespace, kind, workload, user, queue, reason) (berth_gpu_pod_wait_seconds{reason=\"" + gangWait + "\"}) > 7200",
			Summary: "{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.workload }}{{ with $labels.user }} of {{ . }}{{ end }} has waited {{ $value | humanizeDuration }} for all of its pods to fit",
			Means:   "A gang starts when all of its pods fit at once, and for two hours they have not. Smaller pods may be taking each GPU as it becomes free, or pods of the gang are missing.",
			Look:    "`berth why` of the workload; `berth queue` for its place.",
			Do:      "Give it a higher priority, keep a reservation for it ([waiting](../waiting.md)), or have it ask for fewer pods.",
		},
		{
			Name: "GPUQueueWaitHigh", Severity: Warning, Expr: "max by (queue) (berth_queue_oldest_wait_seconds) > 14400",
			Summary:  "The first workload of queue {{ $labels.queue }} has waited {{ $value | humanizeDuration }} for quota",
			Means:    "A workload has waited four hours for quota of its queue.",
			Look:     "`berth queue` shows the tree of quotas, who borrows, and the line.",
			Do:       "Nothing, if the queue's own members hold its quota. If others have borrowed it and do not return it, see [queues](../queues.md) about reclaim.",
			Spurious: "Long jobs in a small queue.",
		},
		{
			Name: "GPUQuotaNearlyUsed", Severity: Info, For: 30 * time.Minute,
			Expr:    "max by (queue, gpus) (berth_queue_used_gpus / (berth_queue_nominal_gpus > 0)) > 0.9",
			Summary: "Queue {{ $labels.queue }} uses {{ $value | humanizePercentage }} of its {{ $labels.gpus }} quota",
			Means:   "A queue holds more than 90% of its nominal quota. Further workloads borrow, or wait.",
			Look:    "`berth queue` and `berth idle`.",
			Do:      "Nothing, or a larger quota, if it is so all the time and others have more than they use.",
		},
	}
}

func costs() []Rule {
	return []Rule{
		{
			Name: "GPUBudgetForecast", Severity: Warning, For: time.Hour, Expr: "max by (queue) (berth_queue_budget_forecast_ratio) > 1",
			Summary:  "Queue {{ $labels.queue }} comes to {{ $value | humanizePercentage }} of its budget by the end of the month",
			Means:    "If a queue goes on as lately, it spends more this month than its budget.",
			Look:     "`berth budget`; `berth cost --by user`.",
			Do:       "Talk to the team; `berth idle` shows what could be saved.",
			Spurious: "The forecast knows nothing of weekends or of work that ends.",
		},
		{
			Name: "GPUPriceUnknown", Severity: Info, For: time.Hour, Expr: "max by (node, product) (berth_node_priced) == 0",
			Summary: "No price is known of {{ $labels.node }} ({{ $labels.product }}): what it costs is missing in all sums",
			Means:   "The ledger counts GPU-hours of the node, and no money.",
			Look:    "`berth price` and `berth price explain NODE`.",
			Do:      "Set a price with `berth price set`, or a PriceBook ([costs](../cost.md)).",
		},
		{
			Name: "GPULedgerGap", Severity: Critical, For: 5 * time.Minute, Expr: "time() - max(berth_ledger_written_timestamp_seconds) > 300",
			Summary: "The ledger of GPU time was last written {{ $value | humanizeDuration }} ago",
			Means:   "Nothing has been written into the ledger for some minutes. The holdings of pods are written later, but their use is lost, and after a loss of the disk everything is.",
			Look:    "The log of `berth meter`, or in `berth up` `log/berth.log` of its folder; whether the disk is full.",
			Do:      "Make room, or start `berth meter`. Then `berth cost verify`.",
		},
		{
			Name: "GPUReadingsFull", Severity: Warning, Expr: "increase(berth_readings_refused_total[10m]) > 0",
			Summary: "Berth has no room for all readings of GPUs: {{ humanize $value }} samples were left out in ten minutes",
			Means:   "Berth keeps 50,000 series, and the cluster has more. Alerts and dashboards do not see what is left out: GPUs of some nodes may seem to have no readings. Placement, quotas, and the ledger do not depend on it.",
			Look:    "`berth_readings_series`, and `topk(10, count by (__name__) ({__name__!=\"\"}))` for what there is most of.",
			Do:      "Run a Prometheus: Berth finds it in the cluster and asks it for the readings of GPUs, and keeps only its own ([metrics](../metrics.md)).",
		},
	}
}
