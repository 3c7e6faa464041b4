package can_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/kube/can"
	"berth.dev/berth/kube/kubetest"
)

func TestWhatAConfigurationOfTheDevicePluginDoes(t *testing.T) {
	config := func(namespace, text string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"kind": "ConfigMap", "metadata": map[string]any{"name": "slices", "namespace": namespace}, "data": map[string]any{"config.yaml": text},
		}}
	}
	const shares = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
	plugin := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "plugin", Namespace: "gpu-operator"}}
	plugin.Spec.Template.Spec.Containers = []v1.Container{{Image: "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}}
	discovery := plugin.DeepCopy()
	discovery.Name, discovery.Spec.Template.Spec.Containers[0].Command = "gpu-feature-discovery", []string{"gpu-feature-discovery"}
	other := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "exporter", Namespace: "gpu-operator"}}
	other.Spec.Template.Spec.Containers = []v1.Container{{Image: "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3"}}
	pod := func(name, node string, gpus int) *v1.Pod {
		return kubetest.Pod(name, node, "nvidia.com/gpu", gpus)
	}
	of := func(node string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "plugin-" + node, Namespace: "gpu-operator", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "plugin"}}}}
		p.Spec.NodeName = node
		return p
	}
	policy := func(name string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "cluster-policy"}, "spec": map[string]any{"devicePlugin": map[string]any{"config": map[string]any{"name": name}}},
		}}
	}
	const restart = "the device plugin reads it when it starts: kubectl rollout restart daemonset/plugin -n gpu-operator"
	ended := pod("ended", "n1", 1)
	ended.Status.Phase = v1.PodSucceeded
	for _, tt := range []struct {
		name string
		o    *unstructured.Unstructured
		c    can.Plugins
		want []string
	}{
		{"a ConfigMap of something else", config("gpu-operator", "colors: blue"), can.Plugins{DaemonSets: []*appsv1.DaemonSet{plugin}}, nil},
		{"text that cannot be read as YAML", config("gpu-operator", "sharing: ["), can.Plugins{DaemonSets: []*appsv1.DaemonSet{plugin}}, nil},
		{"no device plugin at all", config("gpu-operator", shares), can.Plugins{DaemonSets: []*appsv1.DaemonSet{other, discovery}}, []string{"no device plugin runs in namespace gpu-operator, so none reads this ConfigMap"}},
		{
			"a namespace without one", config("default", shares),
			can.Plugins{DaemonSets: []*appsv1.DaemonSet{plugin, other}},
			[]string{"no device plugin runs in namespace default, so none reads this ConfigMap; one runs in namespace gpu-operator"},
		},
		{
			"nothing holds GPUs on its nodes", config("gpu-operator", shares),
			can.Plugins{DaemonSets: []*appsv1.DaemonSet{plugin, other}, Pods: []*v1.Pod{of("n1"), pod("apart", "n9", 1), pod("waits", "", 1), kubetest.Pod("cpu", "n1", "cpu", 1), ended}},
			[]string{restart},
		},
		{
			"a pod that the restart meets", config("gpu-operator", shares),
			can.Plugins{DaemonSets: []*appsv1.DaemonSet{plugin}, Pods: []*v1.Pod{of("n1"), pod("a", "n1", 1)}},
			[]string{restart, "a restart of daemonset/plugin meets 1 pod that holds GPUs: ns/a on n1; let them end first: they were given GPUs under the earlier configuration"},
		},
		{
			"more pods than are named", config("gpu-operator", shares),
			can.Plugins{DaemonSets: []*appsv1.DaemonSet{plugin}, Pods: []*v1.Pod{pod("f", "n1", 1), pod("a", "n1", 1), pod("b", "n2", 1), of("n1"), of("n2"), pod("c", "n1", 1), pod("d", "n1", 1), pod("e", "n1", 1)}},
			[]string{restart, "a restart of daemonset/plugin meets 6 pods that hold GPUs: ns/a on n1, ns/b on n2, ns/c on n1, ns/d on n1, and 2 more; let them end first: they were given GPUs under the earlier configuration"},
		},
		{
			"an operator that names no ConfigMap", config("gpu-operator", shares),
			can.Plugins{DaemonSets: []*appsv1.DaemonSet{plugin}, Policies: []unstructured.Unstructured{policy("")}},
			[]string{"the GPU Operator's device plugin reads this ConfigMap if spec.devicePlugin.config.name of ClusterPolicy cluster-policy is slices; it is not set", restart},
		},
		{
			"an operator that names another", config("gpu-operator", shares),
			can.Plugins{DaemonSets: []*appsv1.DaemonSet{plugin}, Policies: []unstructured.Unstructured{policy("mps")}},
			[]string{"the GPU Operator's device plugin reads this ConfigMap if spec.devicePlugin.config.name of ClusterPolicy cluster-policy is slices; it is mps", restart},
		},
		{"an operator that names it", config("gpu-operator", shares), can.Plugins{DaemonSets: []*appsv1.DaemonSet{plugin}, Policies: []unstructured.Unstructured{policy("slices")}}, []string{restart}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.c.Notes(tt.o); !slices.Equal(got, tt.want) {
				t.Errorf("notes are\n%q, want\n%q", got, tt.want)
			}
		})
	}
}
