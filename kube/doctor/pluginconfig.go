package doctor

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/finding"
)

// PluginConfig is a ConfigMap with a configuration of NVIDIA's device plugin.
type PluginConfig struct{ Namespace, Name string }

// operatorNamespace is where the GPU Operator and its parts are by its documents.
const operatorNamespace = "gpu-operator"

// PluginSpaces are the namespaces in which such ConfigMaps are looked for: those of the device plugins, and those in which people put
// what belongs to none.
func PluginSpaces(sets []*appsv1.DaemonSet) []string {
	out := []string{v1.NamespaceDefault, metav1.NamespaceSystem, operatorNamespace}
	for _, p := range findParts(sets, nil) {
		if p.role == plugin {
			out = append(out, p.set.Namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// unreadConfigs finds configurations of the device plugin that no device plugin is started with: time-slicing that is never on.
func (e *examined) unreadConfigs() []finding.Finding {
	var found []string
	for _, c := range e.PluginConfigs {
		if !e.readsConfig(c) {
			found = append(found, c.Namespace+"/"+c.Name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return []finding.Finding{warn("plugin-config", fmt.Sprintf("%s of the device plugin %s read by none, so what %s says of sharing is not so: %s",
		count(len(found), "configuration"), verb(len(found), "is", "are"), verb(len(found), "it", "each"), few(found)),
		"have the plugin start with it: NVIDIA's chart config.name, GPU Operator spec.devicePlugin.config.name of the ClusterPolicy; `berth can -f FILE` names the pods that a restart meets")}
}

// readsConfig reports whether a device plugin, or a part beside it, reads a ConfigMap: it mounts it, or a ClusterPolicy of the GPU Operator names it.
func (e *examined) readsConfig(c PluginConfig) bool {
	for _, p := range e.parts {
		if p.set.Namespace != c.Namespace {
			continue
		}
		if p.simulated && c.Name == simulatedConfig || slices.ContainsFunc(p.set.Spec.Template.Spec.Volumes, func(v v1.Volume) bool { return mounts(&v, c.Name) }) {
			return true
		}
	}
	return slices.Contains(e.PolicyConfigs, c.Name) && c.Namespace == operatorNamespace
}

// simulatedConfig is what the plugins of berth up read.
const simulatedConfig = "device-plugin-config"

// mounts reports whether a volume has what is in a ConfigMap.
func mounts(v *v1.Volume, name string) bool {
	if v.ConfigMap != nil && v.ConfigMap.Name == name {
		return true
	}
	return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s v1.VolumeProjection) bool { return s.ConfigMap != nil && s.ConfigMap.Name == name })
}
