package idle

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/controller/proxy"
	rules "berth.dev/berth/core/idle"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/exporter"
)

// GPUs implements Prober.
func (p *httpProber) GPUs(ctx context.Context, pod *corev1.Pod) rules.GPUs {
	out := rules.GPUs{At: p.now(), Result: rules.Absent}
	if !holdsGPUs(pod) {
		return out
	}
	at, readings, served, err := p.gauges.Read(ctx, pod.Spec.NodeName)
	switch {
	case err != nil:
		out.Result, out.Said = rules.Failed, "its GPUs cannot be read: "+proxy.Short(err, p.gauges.Longest)
		return out
	case !served:
		out.Said = "no DCGM exporter runs on node " + pod.Spec.NodeName
		return out
	}
	return gpuState(at, pod, readings)
}

// gpuState picks what a pod holds. It is
// Failed where the exporter tells of some of the pod's devices only, or of no GPU at
// all, as where the driver hangs; and Absent where it tells of others alone, or not
// how busy they are, as of MIG devices by some exporters.
func gpuState(at time.Time, pod *corev1.Pod, readings []exporter.Reading) rules.GPUs {
	out := rules.GPUs{At: at, Result: rules.Absent}
	held := devices.HeldDevices(pod)
	for _, r := range exporter.Of(readings, pod.Namespace, pod.Name, held) {
		out.Devices = append(out.Devices, rules.Device{UUID: r.UUID, Utilization: r.Utilization, MemoryBytes: r.MemoryBytes})
	}
	switch n := len(out.Devices); {
	case len(readings) == 0:
		out.Result, out.Said = rules.Failed, "the DCGM exporter of node "+pod.Spec.NodeName+" responds but reports no GPU"
	case n == 0:
		out.Said = "the DCGM exporter of node " + pod.Spec.NodeName + " does not report its GPUs"
	case n < len(held):
		out.Result, out.Said = rules.Failed, fmt.Sprintf("the DCGM exporter of node %s reports %d of its %d GPUs", pod.Spec.NodeName, n, len(held))
	default:
		out.Result = rules.OK
	}
	return out
}
