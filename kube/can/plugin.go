package can

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/kube/request"
)

// Plugins are what runs NVIDIA's device plugin in a cluster, and the pods that its restart meets.
type Plugins struct {
	DaemonSets []*appsv1.DaemonSet         // of all namespaces; only device plugins count
	Policies   []unstructured.Unstructured // ClusterPolicies of the GPU Operator
	Pods       []*v1.Pod                   // of all namespaces
}

// mostNamed is how many pods are named in a note.
const mostNamed = 4

// Notes says what a ConfigMap does that has a configuration of NVIDIA's device plugin: which device plugin may read it, what
// has it read, and which pods hold GPUs there. It is nil for other objects.
//
// The plugin reads its configuration when it starts (k8s-device-plugin, "Configuration file"), and in the GPU Operator the one that
// spec.devicePlugin.config of the ClusterPolicy names.
func (c *Plugins) Notes(o *unstructured.Unstructured) (notes []string) {
	if !ConfiguresPlugin(o) {
		return nil
	}
	var here []*appsv1.DaemonSet
	var elsewhere []string
	for _, ds := range c.DaemonSets {
		switch {
		case !isPlugin(ds):
		case ds.Namespace == o.GetNamespace():
			here = append(here, ds)
		default:
			elsewhere = append(elsewhere, ds.Namespace)
		}
	}
	if len(here) == 0 {
		note := fmt.Sprintf("no device plugin runs in namespace %s, so none reads this ConfigMap", o.GetNamespace())
		if slices.Sort(elsewhere); len(elsewhere) > 0 {
			note += "; one runs in namespace " + strings.Join(slices.Compact(elsewhere), " and ")
		}
		return []string{note}
	}
	for _, policy := range c.Policies {
		name, _, _ := unstructured.NestedString(policy.Object, "spec", "devicePlugin", "config", "name")
		if name != o.GetName() {
			notes = append(notes, fmt.Sprintf("the GPU Operator's device plugin reads this ConfigMap if spec.devicePlugin.config.name of ClusterPolicy %s is %s; it is %s",
				policy.GetName(), o.GetName(), cmp.Or(name, "not set")))
		}
	}
	for _, ds := range here {
		notes = append(notes, fmt.Sprintf("the device plugin reads it when it starts: kubectl rollout restart daemonset/%s -n %s", ds.Name, ds.Namespace))
		if held := c.holders(ds); len(held) > 0 {
			notes = append(notes, fmt.Sprintf("a restart of daemonset/%s meets %s; let them end first: they were given GPUs under the earlier configuration", ds.Name, named(held)))
		}
	}
	return notes
}

// ConfiguresPlugin reports whether an object is a ConfigMap with a configuration of the device plugin.
func ConfiguresPlugin(o *unstructured.Unstructured) bool {
	if o.GetKind() != "ConfigMap" {
		return false
	}
	data, _, _ := unstructured.NestedStringMap(o.Object, "data")
	for _, text := range data {
		if IsPluginConfig(text) {
			return true
		}
	}
	return false
}

// IsPluginConfig reports whether a text is a configuration of the device plugin, right or wrong, by the keys that it has.
func IsPluginConfig(text string) bool {
	var read map[string]any
	if yaml.Unmarshal([]byte(text), &read) != nil {
		return false
	}
	has := func(key string) bool { _, there := read[key]; return there }
	return has("sharing") || has("flags") && has("version")
}

// isPlugin reports whether a DaemonSet runs NVIDIA's device plugin, whose image has GPU Feature Discovery too.
func isPlugin(ds *appsv1.DaemonSet) bool {
	return slices.ContainsFunc(ds.Spec.Template.Spec.Containers, func(c v1.Container) bool {
		return strings.Contains(c.Image, "k8s-device-plugin") && !slices.Contains(slices.Concat(c.Command, c.Args), "gpu-feature-discovery")
	})
}

// holders returns the pods that hold GPUs on the nodes of a DaemonSet, by namespace and name.
func (c *Plugins) holders(ds *appsv1.DaemonSet) (out []*v1.Pod) {
	on := map[string]bool{}
	for _, p := range c.Pods {
		on[p.Spec.NodeName] = on[p.Spec.NodeName] || p.Namespace == ds.Namespace && slices.ContainsFunc(p.OwnerReferences, func(r metav1.OwnerReference) bool {
			return r.Kind == "DaemonSet" && r.Name == ds.Name
		})
	}
	for _, p := range c.Pods {
		ended := request.Ended(p)
		if p.Spec.NodeName != "" && on[p.Spec.NodeName] && !ended && request.AsksForGPUs(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// named names pods with their nodes, the first of them.
func named(pods []*v1.Pod) string {
	var list []string
	for _, p := range pods[:min(len(pods), mostNamed)] {
		list = append(list, fmt.Sprintf("%s/%s on %s", p.Namespace, p.Name, p.Spec.NodeName))
	}
	text := "1 pod that holds GPUs: "
	if len(pods) > 1 {
		text = fmt.Sprintf("%d pods that hold GPUs: ", len(pods))
	}
	if text += strings.Join(list, ", "); len(pods) > mostNamed {
		text += fmt.Sprintf(", and %d more", len(pods)-mostNamed)
	}
	return text
}
