package explain

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// Measured is how busy a pod is at one moment, as far as it is measured.
type Measured struct {
	GPUs     map[string]float64 // utilization ratio by UUID
	CPUMilli map[string]int64   // by container
}

const (
	idleGPUs = 0.3 // utilization ratio below which GPUs wait for something
	fullCPU  = 90  // percent of its limit from which on a container's CPU is throttled
)

// CPUBound is that the GPUs of a pod are mostly idle while the CPU of the container that
// has them is at its limit; "" is that this is not so, or not known.
func CPUBound(pod *v1.Pod, m Measured) (reasons.Code, string) {
	sum, known := 0.0, 0
	for _, uuid := range devices.HeldDevices(pod) {
		if busy, ok := m.GPUs[uuid]; ok {
			sum += busy
			known++
		}
	}
	if known == 0 || sum/float64(known) >= idleGPUs {
		return "", ""
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		limit := request.MilliAmount(c.Resources.Limits.Cpu(), request.MostMilli)
		if used := m.CPUMilli[c.Name]; len(request.ContainerAmounts(c)) > 0 && limit > 0 && used*100 >= limit*fullCPU {
			return reasons.CodeCPUBound, fmt.Sprintf("container %s uses %s CPU of its limit %s, while its GPUs are busy %.0f %% of the time: they wait for CPU; raise limits.cpu, or load data with fewer processes",
				c.Name, coresText(used), coresText(limit), 100*sum/float64(known))
		}
	}
	return "", ""
}

// coresText writes thousandths of a core as cores, down to tenths.
func coresText(milli int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(milli)/1000), ".0")
}
