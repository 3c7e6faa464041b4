package exporter

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// Counters are the agent's own, since it started.
type Counters struct {
	Differences int64            // commitments where the kubelet had picked other devices
	Refusals    map[string]int64 // containers that were refused their devices, by reason
	Restarts    int64            // of the child process that owns NVML
}

// appendOwn writes Berth's own metrics of devices: who holds how much of them and
// whether they are healthy. Those without a device are appendCounters'.
func appendOwn(b []byte, o *Options, devs []Device, healthy func(uuid string) bool) []byte {
	b = appendHead(b, "berth_gpu_held", "gauge", "Part of the device that is allocated to containers, in GPUs.")
	for i := range devs {
		if d := &devs[i]; d.MIG != nil || len(d.GPU.MIG) == 0 || len(d.Pods) > 0 {
			b = appendDevice(b, "berth_gpu_held", o, d, float64(held(d))/1000)
		}
	}
	head := false
	for i := range devs {
		for j := range devs[i].Pods {
			if !head {
				b = appendHead(b, "berth_gpu_holder_info", "gauge", "The container that uses the device; committed says whether Berth's scheduler chose the device. Always 1.")
				head = true
			}
			p := &devs[i].Pods[j]
			b = append(append(b, "berth_gpu_holder_info"...), '{')
			b = podLabels(appendOwnLabels(b, o, &devs[i]), o, p)
			b = append(addLabel(b, "committed", strconv.FormatBool(p.Committed)), "} 1\n"...)
		}
	}
	b = appendHead(b, "berth_gpu_healthy", "gauge", "Whether the device can be allocated to containers.")
	for i := range devs {
		uuid := devs[i].GPU.UUID
		if devs[i].MIG != nil {
			uuid = devs[i].MIG.UUID
		}
		b = appendDevice(b, "berth_gpu_healthy", o, &devs[i], float64(number(healthy(uuid))))
	}
	return b
}

// held is how much of a device is held, in milli-GPUs: the sum of its holders'
// parts, and the whole device where one of them is not known.
func held(d *Device) int64 {
	size := int64(1000)
	if d.MIG != nil && d.ComputeSlices > 0 {
		size = int64(d.MIG.Slices) * 1000 / int64(d.ComputeSlices)
	}
	var sum int64
	for _, p := range d.Pods {
		if p.MilliGPU <= 0 {
			return size
		}
		sum += p.MilliGPU
	}
	return min(sum, size)
}

// appendXids writes the counts of Xids. GPUs are named by their index only while
// they are there.
func appendXids(b []byte, o *Options, devs []Device, x *Xids, now time.Time) []byte {
	tally := x.tally(now)
	if len(tally) == 0 {
		return b
	}
	labels := func(t *xidTally, all bool) []byte {
		i := slices.IndexFunc(devs, func(d Device) bool { return d.MIG == nil && d.GPU.UUID == t.uuid })
		if i < 0 {
			return addLabel(addHostname(addUUID(nil, o, t.uuid), o), "xid", strconv.Itoa(t.xid))
		}
		if all {
			return addLabel(deviceLabels(nil, o, &devs[i]), "xid", strconv.Itoa(t.xid))
		}
		return addLabel(ownLabels(o, &devs[i]), "xid", strconv.Itoa(t.xid))
	}
	b = appendHead(b, "DCGM_EXP_XID_ERRORS_COUNT", "gauge", "Count of XID errors within the time window.")
	for i := range tally {
		l := addLabel(labels(&tally[i], true), "window_size_in_ms", strconv.FormatInt(xidWindow.Milliseconds(), 10))
		b = appendLine(b, "DCGM_EXP_XID_ERRORS_COUNT", l, float64(tally[i].recent))
	}
	b = appendHead(b, "DCGM_EXP_XID_ERRORS_TOTAL", "counter", "Total XID errors observed since exporter start.")
	for i := range tally {
		b = appendLine(b, "DCGM_EXP_XID_ERRORS_TOTAL", labels(&tally[i], true), float64(tally[i].total))
	}
	b = appendHead(b, "berth_gpu_xid_errors_total", "counter", "Xids of the GPU since the agent started.")
	for i := range tally {
		b = appendLine(b, "berth_gpu_xid_errors_total", labels(&tally[i], false), float64(tally[i].total))
	}
	return b
}

func appendUp(b []byte, up bool) []byte {
	b = appendHead(b, "berth_nvml_up", "gauge", "Whether the driver answered this scrape.")
	return appendLine(b, "berth_nvml_up", nil, float64(number(up)))
}

func appendCounters(b []byte, c Counters) []byte {
	b = appendHead(b, "berth_commitment_differences_total", "counter", "Containers whose committed devices were not those that the kubelet picked.")
	b = appendLine(b, "berth_commitment_differences_total", nil, float64(c.Differences))
	if len(c.Refusals) > 0 {
		b = appendHead(b, "berth_commitment_refusals_total", "counter", "Container starts that were refused.")
	}
	for _, reason := range slices.Sorted(maps.Keys(c.Refusals)) {
		b = appendLine(b, "berth_commitment_refusals_total", addLabel(nil, "reason", reason), float64(c.Refusals[reason]))
	}
	b = appendHead(b, "berth_nvml_restarts_total", "counter", "Restarts of the process that calls the driver.")
	return appendLine(b, "berth_nvml_restarts_total", nil, float64(c.Restarts))
}

// appendFaults counts the lines of a file of fields that give no series.
func appendFaults(b []byte, faults []Fault) []byte {
	if len(faults) == 0 {
		return b
	}
	count := map[string]int64{}
	for _, f := range faults {
		count[f.Reason]++
	}
	b = appendHead(b, "berth_metrics_file_lines_left_out", "gauge", "Lines of the metrics file that produce no series, by reason; unread is the whole file.")
	for _, reason := range slices.Sorted(maps.Keys(count)) {
		b = appendLine(b, "berth_metrics_file_lines_left_out", addLabel(nil, "reason", reason), float64(count[reason]))
	}
	return b
}

// appendDevice writes one of Berth's series of a device.
func appendDevice(b []byte, name string, o *Options, d *Device, value float64) []byte {
	b = appendOwnLabels(append(append(b, name...), '{'), o, d)
	b = strconv.AppendFloat(append(b, ends...), value, 'g', -1, 64)
	return append(b, '\n')
}

// appendLine writes one series; labels are without braces.
func appendLine(b []byte, name string, labels []byte, value float64) []byte {
	b = append(b, name...)
	if len(labels) > 0 {
		b = append(append(append(b, '{'), labels...), '}')
	}
	b = strconv.AppendFloat(append(b, ' '), value, 'g', -1, 64)
	return append(b, '\n')
}
