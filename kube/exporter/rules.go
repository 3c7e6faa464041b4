package exporter

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// RuleProblem is why a rule of Prometheus does not do what it seems to.
type RuleProblem struct {
	Seen, Do string
}

// unmeasured are series that rules ask for and that neither dcgm-exporter with its default counters, nor Berth's agent has, each with what to ask for instead.
// The first are counters that dcgm-exporter has only where its list names them; the others are those of old exporters.
var unmeasured = map[string]string{ //nolint:gochecknoglobals // a constant
	"DCGM_FI_DEV_FB_TOTAL":              "DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE",
	"DCGM_FI_DEV_FB_USED_PERCENT":       "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
	"DCGM_FI_DEV_GPU_MEMORY_USED":       "DCGM_FI_DEV_FB_USED",
	"DCGM_FI_DEV_MEM_UTIL":              "DCGM_FI_DEV_MEM_COPY_UTIL",
	"dcgm_gpu_utilization":              "DCGM_FI_DEV_GPU_UTIL",
	"dcgm_gpu_temp":                     "DCGM_FI_DEV_GPU_TEMP",
	"dcgm_fb_used":                      "DCGM_FI_DEV_FB_USED",
	"dcgm_fb_free":                      "DCGM_FI_DEV_FB_FREE",
	"dcgm_power_usage":                  "DCGM_FI_DEV_POWER_USAGE",
	"nvidia_gpu_duty_cycle":             "DCGM_FI_DEV_GPU_UTIL",
	"nvidia_gpu_memory_used_bytes":      "DCGM_FI_DEV_FB_USED * 1048576",
	"nvidia_gpu_temperature_celsius":    "DCGM_FI_DEV_GPU_TEMP",
	"container_accelerator_duty_cycle":  "DCGM_FI_DEV_GPU_UTIL",
	"container_accelerator_memory_used": "DCGM_FI_DEV_FB_USED * 1048576",
}

var (
	metricName = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	quoted     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
	lastXid    = regexp.MustCompile(`DCGM_FI_DEV_XID_ERRORS(\{[^}]*\})?\s*(>|!=)\s*0\b`)
)

// CheckRule finds in an expression of PromQL the series of GPUs that no exporter of today has, and the Xid that never ends. None is that
// nothing is known against it.
func CheckRule(expr string) []RuleProblem {
	var out []RuleProblem
	bare := quoted.ReplaceAllString(expr, `""`)
	var seen []string
	for _, name := range metricName.FindAllString(bare, -1) {
		instead, is := unmeasured[name]
		if !is || slices.Contains(seen, name) {
			continue
		}
		seen = append(seen, name)
		out = append(out, RuleProblem{
			Seen: fmt.Sprintf("no exporter of today has %s by default, so this rule never fires", name),
			Do:   cmp.Or(strings.TrimSpace("write "+instead), "remove the rule"),
		})
	}
	if lastXid.MatchString(bare) {
		out = append(out, RuleProblem{
			Seen: "DCGM_FI_DEV_XID_ERRORS keeps the last Xid until the exporter restarts, so this alert does not end, and the same Xid again is not seen",
			Do:   "count new ones: increase(berth_gpu_xid_errors_total[5m]) > 0 with Berth's agent, or changes(DCGM_FI_DEV_XID_ERRORS[5m]) > 0",
		})
	}
	return out
}
