package idle

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/cli/client"
	core "berth.dev/berth/core/cost"
	"berth.dev/berth/kube/exporter"
)

// cpu is what the containers of a pod use.
type cpu struct {
	Cores float64  `json:"cores"`
	Limit *float64 `json:"limit"` // null is that some container has none
}

// nearLimit is from which part of its limit on a pod's CPU is said to be at it.
const nearLimit = 0.9

// String is "1.9 of 2 (at its limit)"; - is not known.
func (c *cpu) String() string {
	switch {
	case c == nil:
		return "-"
	case c.Limit == nil:
		return fmt.Sprintf("%.1f", c.Cores)
	case c.Cores >= nearLimit**c.Limit:
		return fmt.Sprintf("%.1f of %.4g (at its limit)", c.Cores, *c.Limit)
	}
	return fmt.Sprintf("%.1f of %.4g", c.Cores, *c.Limit)
}

// cpuOf reads what a pod uses, from the metrics API. It is a courtesy: nil is that it may not be asked, or does not know.
func cpuOf(ctx context.Context, c *client.Cluster, r *core.IdleRow) *cpu {
	raw, err := c.CoreV1().RESTClient().Get().AbsPath(exporter.PodMetricsPath(r.Namespace, r.Pod)).DoRaw(ctx)
	if err != nil {
		return nil
	}
	used, err := exporter.ContainerCPU(raw)
	if err != nil {
		return nil
	}
	out := &cpu{}
	for _, q := range used {
		out.Cores += q.AsApproximateFloat64()
	}
	pod, err := c.CoreV1().Pods(r.Namespace).Get(ctx, r.Pod, metav1.GetOptions{})
	if err == nil && string(pod.UID) == r.UID {
		out.Limit = limit(pod)
	}
	return out
}

// limit is how much CPU the containers of a pod may use together; nil is that there is no limit.
func limit(p *v1.Pod) *float64 {
	sum := 0.0
	for i := range p.Spec.Containers {
		q, has := p.Spec.Containers[i].Resources.Limits[v1.ResourceCPU]
		if !has {
			return nil
		}
		sum += q.AsApproximateFloat64()
	}
	return &sum
}
