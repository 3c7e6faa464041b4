package cost

import "fmt"

const (
	adviceHours = 1.0     // GPU-hours of which the use is known, below which nothing is advised
	adviceIdle  = 0.5     // part of the time from which on a holder is advised to stop when idle
	adviceShare = 8 << 30 // bytes of a GPU below which a part of one may do
)

// Advice says what a workload could ask for instead, by what it used at most; "" is that what it asks for fits, or that too little is known.
func Advice(r *UseReportRow) string {
	if r.KnownGPUHours < adviceHours || r.Utilization == nil || r.Shared {
		return ""
	}
	switch {
	case r.BusyOfAPod == 0:
		return "never used a GPU: remove the request, or stop it"
	case float64(r.BusyOfAPod) < r.GPUsOfAPod:
		return fmt.Sprintf("a pod asks for %.4g GPUs, and never used more than %d at once", r.GPUsOfAPod, r.BusyOfAPod)
	case r.GPUHours > 0 && r.IdleGPUHours/r.GPUHours >= adviceIdle:
		return "idle for most of the time: stop it when idle"
	case r.GPUsOfAPod == 1 && *r.Utilization < 0.3 && r.MemoryBytes > 0 && r.MemoryBytes < adviceShare:
		return fmt.Sprintf("used at most %.1f GiB, and a third of a GPU or less: a MIG device or a share would do", float64(r.MemoryBytes)/(1<<30))
	}
	return ""
}
