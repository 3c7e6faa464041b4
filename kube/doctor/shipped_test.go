package doctor_test

import (
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/yaml"
)

// TestTheShippedAgentGoesToNodesWithGPUs asks the DaemonSets of deploy/ which nodes they
// choose.
func TestTheShippedAgentGoesToNodesWithGPUs(t *testing.T) {
	type labels = map[string]string
	for _, file := range []string{"agent-daemonset.yaml", "agent-daemonset-privileged.yaml"} {
		text, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var set appsv1.DaemonSet
		if err := yaml.UnmarshalStrict(text, &set); err != nil {
			t.Fatal(err)
		}
		affinity := nodeaffinity.GetRequiredNodeAffinity(&v1.Pod{Spec: set.Spec.Template.Spec})
		for _, c := range []struct {
			name   string
			labels labels
			want   bool
		}{
			{"a node of which nothing is known", labels{}, false},
			{"a node that you have labeled", labels{"berth.dev/agent": "true"}, true},
			{"a node of the GPU operator", labels{"nvidia.com/gpu.present": "true"}, true},
			{"a node of the GPU operator without GPUs", labels{"nvidia.com/gpu.present": "false"}, false},
			{"NFD with NVIDIA's settings", labels{"feature.node.kubernetes.io/pci-10de.present": "true"}, true},
			{"NFD by default", labels{"feature.node.kubernetes.io/pci-0300_10de.present": "true"}, true},
			{"NFD by default, with a data center GPU", labels{"feature.node.kubernetes.io/pci-0302_10de.present": "true"}, true},
			{"NFD with another vendor's GPU", labels{"feature.node.kubernetes.io/pci-0300_1002.present": "true"}, false},
			{"GKE", labels{"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, true},
			{"EKS", labels{"k8s.amazonaws.com/accelerator": "nvidia-tesla-t4"}, true},
			{"EKS Auto Mode", labels{"eks.amazonaws.com/instance-gpu-manufacturer": "nvidia"}, true},
			{"AKS", labels{"kubernetes.azure.com/accelerator": "nvidia"}, true},
			{"Karpenter", labels{"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"}, true},
			{"Karpenter with another vendor's GPU", labels{"karpenter.k8s.aws/instance-gpu-manufacturer": "amd"}, false},
			{"Karpenter on Azure", labels{"karpenter.azure.com/sku-gpu-manufacturer": "nvidia"}, true},
			{"a node that the agent is kept away from", labels{"berth.dev/agent": "false", "nvidia.com/gpu.present": "true", "cloud.google.com/gke-accelerator": "x"}, false},
			{"a node with fake GPUs", labels{"berth.dev/fake-gpus": "true", "nvidia.com/gpu.present": "true", "berth.dev/agent": "true"}, false},
			{"Windows", labels{"kubernetes.io/os": "windows", "nvidia.com/gpu.present": "true"}, false},
		} {
			if c.labels["kubernetes.io/os"] == "" {
				c.labels["kubernetes.io/os"] = "linux"
			}
			got, err := affinity.Match(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: c.labels}})
			if err != nil || got != c.want {
				t.Errorf("%s: %s: chosen is %v, %v; want %v", file, c.name, got, err, c.want)
			}
		}
	}
}
