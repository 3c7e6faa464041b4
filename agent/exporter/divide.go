package exporter

// shared reports whether the device is given in shares or to several.
func (d *Device) shared() bool {
	for _, p := range d.Pods {
		if p.Share {
			return true
		}
	}
	return len(d.Pods) > 1
}

// memoryParts divides used, in MiB, among the pods of a device by what their
// processes use; rest is that of no known pod. parts and rest add up to used. It
// gives no parts when the processes are not known: then all of it is the rest.
//
// Processes may seem to use more than the device, which is read at another
// moment; then each part is reduced in proportion.
func memoryParts(used int64, pods []Pod) (parts []int64, rest int64) {
	if len(pods) == 0 || !pods[0].Known {
		return nil, used
	}
	var sum int64
	for _, p := range pods {
		parts = append(parts, p.MemoryBytes/mib)
		sum += p.MemoryBytes / mib
	}
	if sum > used {
		parts = inProportion(used, parts)
		return parts, 0
	}
	return parts, used - sum
}

// workParts divides a value among the pods of a device that run something on it,
// in proportion to their shares; rest is the value if none does. parts and rest
// add up to the value. Where the processes are not known all are held to run.
//
// It is an estimate as soon as two run: NVML tells how long the GPU worked, not
// for whom.
func workParts(value int64, pods []Pod) (parts []int64, rest int64) {
	weights := make([]int64, len(pods))
	some := false
	for i, p := range pods {
		if p.Running || !p.Known {
			weights[i] = max(1, p.MilliGPU)
			some = true
		}
	}
	if !some {
		return weights, value
	}
	return inProportion(value, weights), 0
}

// inProportion divides total by weights, which are not negative and not all 0. The
// parts add up to total: each takes what is its due of what the ones before it
// have left over, so no part is off by 1 or more.
func inProportion(total int64, weights []int64) []int64 {
	var all, seen, given int64
	for _, w := range weights {
		all += w
	}
	parts := make([]int64, len(weights))
	for i, w := range weights {
		seen += w
		upTo := total * seen / all // MiB or millionths by milli-GPUs or MiB: far from 2^63
		parts[i] = upTo - given
		given = upTo
	}
	return parts
}
