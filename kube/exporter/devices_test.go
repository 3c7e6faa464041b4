package exporter_test

import (
	"testing"

	"berth.dev/berth/kube/exporter"
)

func TestDevicesOfAnExporter(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       exporter.Devices
	}{
		{"nothing", "", exporter.Devices{}},
		{
			"two GPUs, of which one has two series",
			"DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\"} 1\nDCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\"} 1\nDCGM_FI_DEV_FB_USED{gpu=\"1\",UUID=\"GPU-b\"} 1\n",
			exporter.Devices{GPUs: 2},
		},
		{
			"MIG devices, of which one has no profiling",
			"DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\",GPU_I_ID=\"1\"} 1\nDCGM_FI_DEV_FB_USED{UUID=\"GPU-a\",GPU_I_ID=\"2\"} 1\nDCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID=\"GPU-a\",GPU_I_ID=\"2\"} 0.5\n",
			exporter.Devices{GPUs: 1, MIG: 2, MIGActive: 1},
		},
		{"counts of Xids, of which there were none", "# TYPE DCGM_EXP_XID_ERRORS_COUNT gauge\nDCGM_FI_DEV_XID_ERRORS{UUID=\"GPU-a\"} 0\n", exporter.Devices{GPUs: 1, Xids: true}},
		{"the last Xid alone, which does not count", "# TYPE DCGM_FI_DEV_XID_ERRORS gauge\nDCGM_FI_DEV_XID_ERRORS{UUID=\"GPU-a\"} 79\n", exporter.Devices{GPUs: 1}},
		{"counts of Berth's agent", "berth_gpu_xid_errors_total{UUID=\"GPU-a\",xid=\"79\"} 0\n", exporter.Devices{Xids: true}},
		{"lines that cannot be read", "DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\"\n{}\nDCGM_FI_DEV_FB_USED 1\n", exporter.Devices{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := exporter.DevicesOf([]byte(tt.text)); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
