package exporter_test

import (
	"testing"

	"berth.dev/berth/kube/exporter"
)

func TestContainerCPU(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		main      int64 // milli-CPU
		wrong     bool
	}{
		{"two containers", `{"kind":"PodMetrics","containers":[{"name":"main","usage":{"cpu":"1500m","memory":"1Gi"}},{"name":"side","usage":{"cpu":"3n"}}]}`, 1500, false},
		{"a whole number", `{"containers":[{"name":"main","usage":{"cpu":"2"}}]}`, 2000, false},
		{"no reading of CPU", `{"containers":[{"name":"main","usage":{"memory":"1Gi"}}]}`, 0, false},
		{"no containers", `{}`, 0, false},
		{"not a quantity", `{"containers":[{"name":"main","usage":{"cpu":"much"}}]}`, 0, true},
		{"not JSON", `<html>`, 0, true},
	} {
		got, err := exporter.ContainerCPU([]byte(tt.raw))
		cpu := got["main"]
		if (err != nil) != tt.wrong || cpu.MilliValue() != tt.main {
			t.Errorf("%s: ContainerCPU = %v, %v; want main %dm, an error: %v", tt.name, got, err, tt.main, tt.wrong)
		}
	}
	if got := exporter.PodMetricsPath("a b", "c/d"); got != "/apis/metrics.k8s.io/v1beta1/namespaces/a%20b/pods/c%2Fd" {
		t.Errorf("PodMetricsPath = %q", got)
	}
}
