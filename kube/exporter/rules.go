package exporter

import (
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
var unmeasured = map[string]string{
	"DCGM_FI_DEV_FB_TOTAL":              "DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE",
	"DCGM_FI_DEV_FB_USED_PERCENT":       "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
	"DCGM_FI_DEV_GPU_MEMORY_USED":       "DCGM_FI_DEV_FB_USED",
	"DCGM_FI_DEV_MEM_UTIL":              "DCGM_FI_DEV_MEM_COPY_UTIL",
	"DCGM_FI_DEV_SM_OCCUPANCY":          "DCGM_FI_PROF_SM_OCCUPANCY, which has to be switched on in the exporter's list of metrics",
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
	ofGPUs     = regexp.MustCompile(`DCGM_|berth_|(?i:gpu)`)
	// quiet is all of an expression: GPUs that do little, held or free.
	quiet = regexp.MustCompile(`^[\s(]*(?:(?:avg|max)_over_time[\s(]*)?DCGM_FI_DEV_GPU_UTIL\s*(\{[^}]*\})?\s*(?:\[[^\]]*\])?[\s)]*<=?\s*[\d.]+[\s)]*$`)
	// lost is the beginning of an expression: an aggregation without labels, maybe times numbers, that is then joined by labels.
	lost = regexp.MustCompile(`^[\s(]*(sum|avg|min|max|count)\s*\((?:[^()]|\([^()]*\))*\)(?:\s*[-+*/]\s*(?:\([\d\s.*/+-]+\)|[\d.]+))*\s*[-+*/]\s*on\s*\(\s*([^()\s][^()]*)\)`)
)

// Series is a series that no exporter of today has by default.
type Series struct {
	Name    string
	Instead string // what to ask for
	At      int    // where a text has it first, in bytes
}

// Unmeasured are the series in a text that no exporter of today has by default, each once, in the order of the text.
func Unmeasured(text string) []Series {
	if !strings.Contains(text, "DCGM_FI_DEV_") && !strings.Contains(text, "dcgm_") && !strings.Contains(text, "nvidia_gpu_") && !strings.Contains(text, "container_accelerator_") {
		return nil
	}
	var out []Series
	for _, at := range metricName.FindAllStringIndex(text, -1) {
		name := text[at[0]:at[1]]
		if instead, is := unmeasured[name]; is && !slices.ContainsFunc(out, func(s Series) bool { return s.Name == name }) {
			out = append(out, Series{Name: name, Instead: instead, At: at[0]})
		}
	}
	return out
}

// CheckRule finds in an expression of PromQL the series of GPUs that no exporter of today has, and what CheckQuery finds. None is that
// nothing is known against it.
func CheckRule(expr string) []RuleProblem {
	var out []RuleProblem
	bare := quoted.ReplaceAllString(expr, `""`)
	for _, s := range Unmeasured(bare) {
		out = append(out, RuleProblem{Seen: "no exporter of today has " + s.Name + " by default, so this rule never fires", Do: "write " + s.Instead})
	}
	return append(out, CheckQuery(expr)...)
}

// CheckQuery finds in an expression of PromQL about GPUs what gives other series than it seems to: the Xid that never ends, GPUs that are free
// among those that are not used, and a join by a label that the left side has dropped.
func CheckQuery(expr string) []RuleProblem {
	var out []RuleProblem
	bare := quoted.ReplaceAllString(expr, `""`)
	if lastXid.MatchString(bare) {
		out = append(out, RuleProblem{
			Seen: "DCGM_FI_DEV_XID_ERRORS keeps the last Xid until the exporter restarts, so this alert does not end, and the same Xid again is not seen",
			Do:   "count new ones: increase(berth_gpu_xid_errors_total[5m]) > 0 with Berth's agent, or changes(DCGM_FI_DEV_XID_ERRORS[5m]) > 0",
		})
	}
	if m := quiet.FindStringSubmatch(bare); m != nil && !strings.Contains(m[1], "pod") && !strings.Contains(m[1], "namespace") {
		out = append(out, RuleProblem{
			Seen: "free GPUs have a DCGM_FI_DEV_GPU_UTIL of 0 too, so this counts them as wasted, and names no holder; GPUs with MIG are missing",
			Do:   "ask for what is held and not used, as the alert GPUHeldIdle does: berth_gpu_held and on (UUID, namespace, pod) berth:gpu_util:ratio < 0.1",
		})
	}
	if m := lost.FindStringSubmatch(bare); m != nil && ofGPUs.MatchString(bare) {
		by := strings.TrimSpace(m[2])
		out = append(out, RuleProblem{
			Seen: m[1] + "() drops the label " + by + ", by which on(" + by + ") joins, so this matches no series",
			Do:   "keep it: " + m[1] + " by (" + by + ") (...); for what GPUs cost, used or not, ask for berth_cost_usd_total, or berth cost",
		})
	}
	return out
}
