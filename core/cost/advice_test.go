package cost

import "testing"

func TestAdvice(t *testing.T) {
	half, low := 0.5, 0.1
	for _, c := range []struct {
		name string
		row  UseReportRow
		want string
	}{
		{"one that uses what it has", UseReportRow{GPUHours: 9, KnownGPUHours: 9, Utilization: &half, GPUsOfAPod: 2, BusyOfAPod: 2}, ""},
		{"too little is known", UseReportRow{GPUHours: 9, KnownGPUHours: 0.5, Utilization: &low, GPUsOfAPod: 2}, ""},
		{"an over-asker", UseReportRow{GPUHours: 9, KnownGPUHours: 9, Utilization: &half, GPUsOfAPod: 4, BusyOfAPod: 1}, "a pod asks for 4 GPUs, and never used more than 1 at once"},
		{"one that never works", UseReportRow{GPUHours: 9, KnownGPUHours: 9, Utilization: &low, GPUsOfAPod: 1}, "never used a GPU: remove the request, or stop it"},
		{"one that is idle at night", UseReportRow{GPUHours: 9, IdleGPUHours: 6, KnownGPUHours: 9, Utilization: &low, GPUsOfAPod: 1, BusyOfAPod: 1}, "idle for most of the time: stop it when idle"},
		{"a small one", UseReportRow{GPUHours: 9, KnownGPUHours: 9, Utilization: &low, GPUsOfAPod: 1, BusyOfAPod: 1, MemoryBytes: 3 << 30}, "used at most 3.0 GiB, and a third of a GPU or less: a MIG device or a share would do"},
	} {
		if got := Advice(&c.row); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
