package exporter

import (
	"bufio"
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// ExporterPort is where a DCGM exporter serves /metrics.
const ExporterPort = "9400"

// The metrics of dcgm-exporter's default set that are read here.
const (
	metricUtil     = "DCGM_FI_DEV_GPU_UTIL"          // percent; not given for GPUs with MIG on
	metricGraphics = "DCGM_FI_PROF_GR_ENGINE_ACTIVE" // ratio, of a MIG device where there are some
	metricMemory   = "DCGM_FI_DEV_FB_USED"           // MiB
	metricPower    = "DCGM_FI_DEV_POWER_USAGE"       // watts, of the whole GPU
)

var metrics = []string{metricUtil, metricGraphics, metricMemory, metricPower}

// Matcher selects in PromQL what is read here.
const Matcher = `{__name__=~"` + metricUtil + "|" + metricGraphics + "|" + metricMemory + "|" + metricPower + `"}`

// oldMetrics are the same by the names of version 1, which newer exporters write, too,
// where they are started with their file 1.x-compatibility-metrics.csv.
var oldMetrics = map[string]string{
	"dcgm_gpu_utilization": metricUtil, "dcgm_fi_prof_gr_engine_active": metricGraphics, "dcgm_fb_used": metricMemory,
	"dcgm_power_usage": metricPower,
}

// Labels of the series, in order of preference. A Prometheus that keeps its own pod
// and namespace, and hands the series on, has the exporter's under exported_; with
// its option for old names dcgm-exporter has the third, and uuid.
var (
	uuidLabels      = []string{"UUID", "uuid"}
	namespaceLabels = []string{"exported_namespace", "namespace", "pod_namespace"}
	podLabels       = []string{"exported_pod", "pod", "pod_name"}
)

// ExporterSelectors select, each alone, the pods that publish GPU readings: by the
// label of NVIDIA's operator, by that of the exporter's own chart, by the one that
// manifests of tutorials have, and by that of Berth's node agent.
var ExporterSelectors = []string{
	"app=nvidia-dcgm-exporter", "app.kubernetes.io/name=dcgm-exporter", "app=dcgm-exporter", "app=berth-agent",
}

// Exporters picks the running pods that publish GPU readings, by the labels of
// ExporterSelectors, in the order of pods.
func Exporters(pods []*v1.Pod) []*v1.Pod {
	var out []*v1.Pod
	for _, p := range pods {
		if p.Status.Phase == v1.PodRunning && slices.ContainsFunc(ExporterSelectors, func(s string) bool {
			key, value, _ := strings.Cut(s, "=")
			return p.Labels[key] == value
		}) {
			out = append(out, p)
		}
	}
	return out
}

// Utilization reads DCGM metrics in Prometheus' text format: ratios by GPU
// UUID. For a GPU cut by MIG it is the mean of its devices, weighted by their
// compute slices. Lines it does not understand are passed over.
func Utilization(text []byte) map[string]float64 {
	type device struct{ uuid, instance, profile string }
	devices := map[device]*utilization{}
	var order []device // of the text, so that equal texts give equal sums
	for s := range samples(text) {
		d := device{firstLabel(s.labels, uuidLabels), labelValue(s.labels, "GPU_I_ID"), labelValue(s.labels, "GPU_I_PROFILE")}
		if s.name != metricUtil && s.name != metricGraphics || (s.name == metricUtil) != (d.profile == "") {
			continue
		}
		if devices[d] == nil {
			devices[d] = &utilization{}
			order = append(order, d)
		}
		devices[d].add(s.value, firstLabel(s.labels, podLabels) != "")
	}
	whole := map[string]float64{}
	sum, weight := map[string]float64{}, map[string]float64{}
	for _, d := range order {
		u := devices[d]
		if d.profile == "" {
			whole[d.uuid] = u.value() / 100
			continue
		}
		slices, _, _ := strings.Cut(d.profile, "g")
		n, err := strconv.ParseFloat(slices[strings.LastIndexByte(slices, '.')+1:], 64)
		if err != nil {
			n = 1
		}
		sum[d.uuid] += n * u.value()
		weight[d.uuid] += n
	}
	for uuid, w := range weight {
		if _, known := whole[uuid]; !known && w > 0 {
			whole[uuid] = sum[uuid] / w
		}
	}
	return whole
}

// utilization is what the series of one device say. NVIDIA's exporter gives each
// of its pods the same value; Berth's gives each its part, and beside them a series
// without a pod for what is unassigned's.
type utilization struct {
	pods, last, rest float64
	pod, unassigned  bool // there are series with a pod, and one without
}

func (u *utilization) add(value float64, pod bool) {
	if !pod {
		u.rest, u.unassigned = value, true
		return
	}
	u.pods, u.last, u.pod = u.pods+value, value, true
}

func (u *utilization) value() float64 {
	switch {
	case u.pod && u.unassigned:
		return u.pods + u.rest
	case u.pod:
		return u.last
	}
	return u.rest
}

// Reading is what a DCGM exporter says of one device, to one of its holders.
type Reading struct {
	UUID           string // of the GPU, also where the device is a MIG device of it
	Profile        string // of the MIG device; "" is a whole GPU
	Instance       string // of the MIG device: its GPU instance
	Namespace, Pod string // who holds it; "" where the exporter does not say
	// Utilization is a ratio, 0-1: of time for a GPU, of its engine for a MIG device.
	Utilization      float64
	UtilizationKnown bool
	MemoryBytes      int64   // in use, rounded down to MiB
	PowerWatts       float64 // of the whole GPU, also where the device is a MIG device of it; 0 is not known
}

// Readings reads DCGM metrics in Prometheus' text format, in the order of UUID,
// instance and pod. Lines it does not understand are passed over.
func Readings(text []byte) []Reading {
	type key struct{ uuid, instance, namespace, pod string }
	found := map[key]*Reading{}
	percent := map[key]bool{} // has metricUtil, which goes first
	for s := range samples(text) {
		k := key{
			firstLabel(s.labels, uuidLabels), labelValue(s.labels, "GPU_I_ID"),
			firstLabel(s.labels, namespaceLabels), firstLabel(s.labels, podLabels),
		}
		r := found[k]
		if r == nil {
			r = &Reading{UUID: k.uuid, Profile: labelValue(s.labels, "GPU_I_PROFILE"), Instance: k.instance, Namespace: k.namespace, Pod: k.pod}
			found[k] = r
		}
		switch {
		case s.name == metricMemory:
			r.MemoryBytes = int64(min(s.value, 1<<40)) << 20
		case s.name == metricPower:
			r.PowerWatts = s.value
		case s.name == metricUtil && r.Profile == "":
			r.Utilization, r.UtilizationKnown, percent[k] = s.value/100, true, true
		case s.name == metricGraphics && !percent[k]:
			r.Utilization, r.UtilizationKnown = s.value, true
		}
	}
	out := make([]Reading, 0, len(found))
	for _, r := range found {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Reading) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Instance, b.Instance),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	return out
}

// Of returns those of readings, with a utilization, of what a pod holds: those that name it, else those of whole GPUs with
// the UUIDs that it holds.
func Of(readings []Reading, namespace, pod string, held []string) (mine []Reading) {
	for _, r := range readings {
		if r.UtilizationKnown && r.Namespace == namespace && r.Pod == pod {
			mine = append(mine, r)
		}
	}
	if len(mine) > 0 {
		return mine
	}
	for _, r := range readings {
		if r.UtilizationKnown && r.Profile == "" && slices.Contains(held, r.UUID) {
			mine = append(mine, r)
		}
	}
	return mine
}

// Undivided reports whether a reading of a pod is that of the whole device, which other pods use too: NVIDIA's exporter
// gives each of them what all of them do.
func Undivided(readings []Reading, of *Reading) bool {
	others := false
	for i := range readings {
		if r := &readings[i]; r.UUID == of.UUID && r.Instance == of.Instance {
			if r.Pod == "" {
				return false // what it does for none of its pods is apart
			}
			others = others || r.Pod != of.Pod || r.Namespace != of.Namespace
		}
	}
	return others
}

// sample is one line of a metric that is read here.
type sample struct {
	name, labels string // labels without their braces
	value        float64
}

// samples goes through the lines that have a UUID and a value that is not below 0.
func samples(text []byte) iter.Seq[sample] {
	return func(yield func(sample) bool) {
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			name, rest, ok := strings.Cut(lines.Text(), "{")
			name = cmp.Or(oldMetrics[name], name)
			if !ok || !slices.Contains(metrics, name) {
				continue
			}
			end := strings.LastIndexByte(rest, '}')
			if end < 0 {
				continue
			}
			fields := strings.Fields(rest[end+1:])
			if len(fields) == 0 {
				continue
			}
			value, err := strconv.ParseFloat(fields[0], 64)
			if err != nil || !(value >= 0) || firstLabel(rest[:end], uuidLabels) == "" {
				continue
			}
			if !yield(sample{name, rest[:end], value}) {
				return
			}
		}
	}
}

// firstLabel is the first of some labels that is there and not empty, or "".
func firstLabel(labels string, names []string) string {
	for _, name := range names {
		if v := labelValue(labels, name); v != "" {
			return v
		}
	}
	return ""
}

// labelValue finds a label in the inside of a metric's braces.
func labelValue(labels, name string) string {
	for rest := labels; rest != ""; {
		key, after, ok := strings.Cut(rest, `="`)
		if !ok {
			return ""
		}
		value, next, ok := strings.Cut(after, `"`)
		if !ok {
			return ""
		}
		if strings.Trim(key, ", ") == name {
			return value
		}
		rest = next
	}
	return ""
}
