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
