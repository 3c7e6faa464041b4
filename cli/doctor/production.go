package doctor

import (
	"context"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/kube/doctor"
	"berth.dev/berth/kube/exporter"
	"berth.dev/berth/kube/view"
)

// running reads what --production looks at beside objects. It leaves out what cannot be read.
func running(ctx context.Context, c *client.Cluster, o client.Options, all *doctor.Cluster) *doctor.Running {
	out := &doctor.Running{}
	for _, g := range c.Growth(ctx, o, "", all.Nodes) {
		out.Pools = append(out.Pools, g.Pool)
	}
	v := view.Cluster(all.Nodes, all.Pods)
	readings := c.Utilization(ctx, exporter.Exporters(all.Pods))
	v.SetBusy(func(uuid string) (float64, bool) { ratio, known := readings[uuid]; return ratio, known })
	out.Busy, out.BusyKnown = v.Total.Busy, v.Total.BusyKnown
	if _, err := c.CoreV1().ConfigMaps(systemNamespace).Get(ctx, "cluster-autoscaler-status", metav1.GetOptions{}); err == nil {
		out.Autoscaler = "the cluster autoscaler reports in ConfigMap kube-system/cluster-autoscaler-status"
	} else if knows(c, "karpenter.sh/v1", "NodePool") {
		out.Autoscaler = "Karpenter's NodePools are served"
	}
	api, err := c.Dynamic(o)
	if err != nil {
		return out
	}
	rules, err := api.Resource(schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "prometheusrules"}).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return out
	}
	for i := range rules.Items {
		r := &rules.Items[i]
		if text, err := json.Marshal(r.Object["spec"]); err == nil && strings.Contains(string(text), `"alert"`) && (strings.Contains(string(text), "DCGM_FI_") || strings.Contains(string(text), "berth_")) {
			out.Rules = append(out.Rules, r.GetNamespace()+"/"+r.GetName())
		}
	}
	return out
}
