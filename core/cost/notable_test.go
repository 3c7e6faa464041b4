package cost

import (
	"fmt"
	"strings"
	"testing"
)

// rows: NB-57
func TestNotables(t *testing.T) {
	use := 0.4
	workloads := &UseReport{Rows: []UseReportRow{
		{Name: "v/Job/fits", GPUHours: 9, KnownGPUHours: 9, Utilization: &use, GPUsOfAPod: 2, BusyOfAPod: 2, LongestHours: 23.9},
		{Name: "v/Job/wide", User: "ann", GPUHours: 80, KnownGPUHours: 80, Utilization: &use, GPUsOfAPod: 8, BusyOfAPod: 6, LongestHours: 10, CostMicros: 5, Currency: "USD"},
		{Name: "v/Notebook/unused", User: "bob", GPUHours: 40, KnownGPUHours: 40, Utilization: &use, GPUsOfAPod: 1, LongestHours: 40},
		{Name: "v/Notebook/unknown", GPUHours: 40, GPUsOfAPod: 4, LongestHours: 100},
		{Name: "v/Job/shared", GPUHours: 40, KnownGPUHours: 40, Utilization: &use, GPUsOfAPod: 1, Shared: true},
		{Name: "v/Job/slice", GPUHours: 40, KnownGPUHours: 40, Utilization: &use, GPUsOfAPod: 0.25},
	}}
	idle := &IdleReport{Now: at(120), Rows: []IdleRow{{Namespace: "v", Kind: "Notebook", Owner: "quiet", User: "cid", GPUs: 1, Since: at(0), CostMicros: 7, Currency: "USD"}}}
	for _, c := range []struct {
		name string
		most int
		want string
	}{
		{"all", 9, "idle now: v/Notebook/quiet cid 1 2h0m0s ; asks for more than it uses: v/Notebook/unused bob 1 0s of 1 in a pod, at most 0 were busy; " +
			"asks for more than it uses: v/Job/wide ann 8 0s of 8 in a pod, at most 6 were busy; holds for long: v/Notebook/unknown  4 100h0m0s ; holds for long: v/Notebook/unused bob 1 40h0m0s "},
		{"the first of each", 1, "idle now: v/Notebook/quiet cid 1 2h0m0s ; asks for more than it uses: v/Notebook/unused bob 1 0s of 1 in a pod, at most 0 were busy; holds for long: v/Notebook/unknown  4 100h0m0s "},
	} {
		var got []string
		for _, n := range Notables(idle, workloads, c.most) {
			got = append(got, fmt.Sprintf("%s: %s %s %v %v %s", n.Why, n.Workload, n.User, n.GPUs, n.For, n.Detail))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, text, c.want)
		}
	}
}
