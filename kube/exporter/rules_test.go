package exporter_test

import (
	"strings"
	"testing"

	"berth.dev/berth/kube/exporter"
)

func TestCheckRule(t *testing.T) {
	for _, tt := range []struct {
		name, expr string
		want       []string // in what is said of each problem
	}{
		{"full memory, as it is found", `(DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_TOTAL) > 0.95`, []string{"DCGM_FI_DEV_FB_TOTAL"}},
		{"full memory", `DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.95`, nil},
		{"a series of an old exporter, twice", `avg(nvidia_gpu_duty_cycle) < 10 and max(nvidia_gpu_duty_cycle) < 20`, []string{"nvidia_gpu_duty_cycle"}},
		{"an Xid that never ends", `DCGM_FI_DEV_XID_ERRORS{gpu="0"} > 0`, []string{"keeps the last Xid"}},
		{"a new Xid", `changes(DCGM_FI_DEV_XID_ERRORS[5m]) > 0`, nil},
		{"GPUs that do nothing, as they are found: free ones too", `DCGM_FI_DEV_GPU_UTIL < 10`, []string{"names no holder"}},
		{"over an hour", `(avg_over_time(DCGM_FI_DEV_GPU_UTIL{gpu="0"}[1h]) < 5)`, []string{"names no holder"}},
		{"of pods alone", `DCGM_FI_DEV_GPU_UTIL{pod!=""} < 10`, nil},
		{"with their holder", `DCGM_FI_DEV_GPU_UTIL < 10 and on (UUID, namespace, pod) berth_gpu_held`, nil},
		{"busy GPUs", `DCGM_FI_DEV_GPU_UTIL > 90`, nil},
		{
			"cost of a job, as it is found", `sum(DCGM_FI_DEV_GPU_UTIL) * (2/3600) * on(pod) group_left(job_name) kube_pod_labels{label_job_name!=""}`,
			[]string{"sum() drops the label pod, by which on(pod) joins"},
		},
		{"a sum of rates that is joined", `sum(rate(DCGM_FI_DEV_GPU_UTIL[5m])) / on (namespace, pod) kube_pod_info`, []string{"drops the label namespace, pod"}},
		{"a sum that keeps the label", `sum by (pod) (DCGM_FI_DEV_GPU_UTIL) * on (pod) group_left () kube_pod_info`, nil},
		{"a sum that keeps it, said behind", `sum(DCGM_FI_DEV_GPU_UTIL) by (pod) * on (pod) group_left () kube_pod_info`, nil},
		{"a sum joined by nothing", `sum(DCGM_FI_DEV_GPU_UTIL) * on () group_left () count(up)`, nil},
		{"a sum of something else", `sum(http_requests_total) * on (pod) kube_pod_info`, nil},
		{"a name in a label says nothing", `up{job="nvidia_gpu_duty_cycle"} == 0`, nil},
		{"Berth's own", `berth_gpu_unhealthy > 0`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := exporter.CheckRule(tt.expr)
			if len(got) != len(tt.want) {
				t.Fatalf("%d problems, want %d: %+v", len(got), len(tt.want), got)
			}
			for i, text := range tt.want {
				if !strings.Contains(got[i].Seen, text) || got[i].Do == "" {
					t.Errorf("problem %d is %+v, want %q and what to do", i, got[i], text)
				}
			}
		})
	}
}
