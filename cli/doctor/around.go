package doctor

import (
	"context"
	"encoding/json"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/kube/can"
	"berth.dev/berth/kube/doctor"
	"berth.dev/berth/kube/exporter"
)

// Kinds of others that a doctor reads where a cluster has them.
var (
	karpenterPools  = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}     //nolint:gochecknoglobals // a constant
	clusterPolicies = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1", Resource: "clusterpolicies"} //nolint:gochecknoglobals // a constant
)

// aroundGPUs are the questions about what brings GPUs, and what is beside them.
func aroundGPUs(c *client.Cluster, o client.Options, out *doctor.Cluster) []question {
	return []question{
		list("persistentvolumeclaims", c.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List, func(l *v1.PersistentVolumeClaimList) []v1.PersistentVolumeClaim { return l.Items }, &out.Claims),
		list("persistentvolumes", c.CoreV1().PersistentVolumes().List, func(l *v1.PersistentVolumeList) []v1.PersistentVolume { return l.Items }, &out.Volumes),
		{what: "nodepools", ask: func(ctx context.Context) (err error) {
			out.NodePools, err = nodePools(ctx, c, o)
			return err
		}},
		{what: "events", ask: func(ctx context.Context) (err error) {
			out.Unscaled, err = unscaled(ctx, c)
			return err
		}},
		{what: "exporters", ask: func(ctx context.Context) error {
			out.Scrapes = scrapes(ctx, c, out.Pods)
			return nil
		}},
	}
}

// others returns the objects of a kind that only some clusters have; none where this one has none.
func others(ctx context.Context, c *client.Cluster, o client.Options, kind string, of schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	if !knows(c, of.GroupVersion().String(), kind) {
		return nil, nil
	}
	api, err := c.Dynamic(o)
	if err != nil {
		return nil, err
	}
	list, err := api.Resource(of).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// nodePools returns the NodePools of Karpenter.
func nodePools(ctx context.Context, c *client.Cluster, o client.Options) (out []doctor.NodePool, err error) {
	list, err := others(ctx, c, o, "NodePool", karpenterPools)
	for i := range list {
		p := doctor.NodePool{Name: list[i].GetName()}
		spec, _, _ := unstructured.NestedMap(list[i].Object, "spec")
		if limit, there, _ := unstructured.NestedFieldNoCopy(spec, "limits", api.ResourceGPU); there {
			raw, _ := json.Marshal(limit) // a quantity may be written as a number
			_ = json.Unmarshal(raw, &p.GPULimit)
			if p.GPULimit == "" {
				p.GPULimit = string(raw)
			}
		}
		needs, _, _ := unstructured.NestedSlice(spec, "template", "spec", "requirements")
		if raw, err := json.Marshal(needs); err == nil {
			_ = json.Unmarshal(raw, &p.Needs) // what cannot be read forbids nothing
		}
		out = append(out, p)
	}
	return out, err
}

// notTriggered is the reason of the cluster autoscaler's events about pods for which it adds no node.
const notTriggered = "NotTriggerScaleUp"

// unscaled returns what the cluster autoscaler said of pods for which it adds no node.
func unscaled(ctx context.Context, c *client.Cluster) (out []doctor.Unscaled, err error) {
	list, err := c.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + notTriggered})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		e := &list.Items[i]
		if e.Reason != notTriggered || e.InvolvedObject.Kind != "Pod" {
			continue
		}
		out = append(out, doctor.Unscaled{Namespace: e.InvolvedObject.Namespace, Pod: e.InvolvedObject.Name, Message: e.Message})
	}
	return out, nil
}

// scrapes asks some exporters what they publish. One that does not answer, or may not be asked, is left out.
func scrapes(ctx context.Context, c *client.Cluster, pods []*v1.Pod) (out []doctor.Scrape) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ask := exporter.Exporters(pods)
	said := make([]*doctor.Scrape, min(len(ask), doctor.MostScrapes))
	var wg sync.WaitGroup
	for i := range said {
		wg.Go(func() {
			c.ScrapeAll(ctx, ask[i:i+1], func(raw []byte) {
				said[i] = &doctor.Scrape{Node: ask[i].Spec.NodeName, Exported: exporter.DevicesOf(raw)}
			})
		})
	}
	wg.Wait()
	for _, s := range said {
		if s != nil {
			out = append(out, *s)
		}
	}
	return out
}

// pluginConfigs adds the ConfigMaps that configure a device plugin, where such are looked for.
func pluginConfigs(ctx context.Context, c *client.Cluster, o client.Options, out *doctor.Cluster) error {
	for _, space := range doctor.PluginSpaces(out.DaemonSets) {
		list, err := c.CoreV1().ConfigMaps(space).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		for i := range list.Items {
			m := &list.Items[i]
			for _, text := range m.Data {
				if can.IsPluginConfig(text) {
					out.PluginConfigs = append(out.PluginConfigs, doctor.PluginConfig{Namespace: m.Namespace, Name: m.Name})
					break
				}
			}
		}
	}
	if len(out.PluginConfigs) == 0 {
		return nil
	}
	policies, err := others(ctx, c, o, "ClusterPolicy", clusterPolicies)
	for i := range policies {
		if name, _, _ := unstructured.NestedString(policies[i].Object, "spec", "devicePlugin", "config", "name"); name != "" {
			out.PolicyConfigs = append(out.PolicyConfigs, name)
		}
	}
	return err
}
