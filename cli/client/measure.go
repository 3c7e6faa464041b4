package client

import (
	"context"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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
	raw, err := c.CoreV1().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces", pod.Namespace, "pods", pod.Name).DoRaw(ctx)
	if err != nil {
		return out
	}
	var metrics struct {
		Containers []struct {
			Name  string
			Usage map[string]resource.Quantity
		}
	}
	if json.Unmarshal(raw, &metrics) != nil {
		return out
	}
	for i := range metrics.Containers {
		cpu := metrics.Containers[i].Usage["cpu"]
		out.CPUMilli[metrics.Containers[i].Name] = cpu.MilliValue()
	}
	return out
}
