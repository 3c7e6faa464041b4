package client

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/exporter"
)

// Measure asks the exporters on the node of a pod how busy its GPUs are, and the metrics API
// how much CPU its containers use. It is a courtesy: what may not be asked, or does not answer, is left
// out. pods are those of the cluster.
func (c *Cluster) Measure(ctx context.Context, pod *v1.Pod, pods []*v1.Pod) explain.Measured {
	var here []*v1.Pod
	for _, p := range exporter.Exporters(pods) {
		if p.Spec.NodeName == pod.Spec.NodeName {
			here = append(here, p)
		}
	}
	out := explain.Measured{GPUs: c.Utilization(ctx, here), CPUMilli: map[string]int64{}}
	if len(out.GPUs) == 0 {
		return out
	}
	raw, err := c.CoreV1().RESTClient().Get().AbsPath(exporter.PodMetricsPath(pod.Namespace, pod.Name)).DoRaw(ctx)
	if err != nil {
		return out
	}
	used, err := exporter.ContainerCPU(raw)
	if err != nil {
		return out
	}
	for name, cpu := range used {
		out.CPUMilli[name] = cpu.MilliValue()
	}
	return out
}
