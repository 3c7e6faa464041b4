package system

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/api"
)

// PluginName is the name of the device plugin's DaemonSet, in kube-system and
// in gpu-operator alike.
const PluginName = "nvidia-device-plugin-daemonset"

// ExporterPort is where a pod of nvidia-dcgm-exporter answers /metrics.
const ExporterPort = 9400

// Plugin returns the DaemonSet of NVIDIA's static device plugin manifest in
// kube-system. Its pods carry the label of that manifest and that of the Helm
// chart, since users' commands select by either.
func Plugin() runtime.Object {
	d := daemonSet(KubeNamespace, PluginName, map[string]string{"name": "nvidia-device-plugin-ds"}, v1.Container{
		Name: "nvidia-device-plugin-ctr", Image: pluginImage,
	})
	d.Spec.Template.Labels["app.kubernetes.io/name"] = "nvidia-device-plugin"
	return d
}

// Operator returns what NVIDIA's GPU operator has made once it is done: the
// RuntimeClass nvidia, and in its namespace itself, five DaemonSets, and the
// exporter's Service.
func Operator() []runtime.Object {
	exporter := v1.Container{
		Name: "nvidia-dcgm-exporter", Image: exporterImage,
		Ports: []v1.ContainerPort{{Name: "metrics", ContainerPort: ExporterPort, Protocol: v1.ProtocolTCP}},
	}
	return []runtime.Object{
		&nodev1.RuntimeClass{ObjectMeta: meta("", "nvidia", nil), Handler: "nvidia"},
		operator(),
		part("nvidia-driver-daemonset", v1.Container{Name: "nvidia-driver-ctr", Image: driverImage}),
		part("nvidia-container-toolkit-daemonset", v1.Container{Name: "nvidia-container-toolkit-ctr", Image: toolkitImage}),
		part(PluginName, v1.Container{Name: "nvidia-device-plugin", Image: pluginImage}),
		part("gpu-feature-discovery", v1.Container{Name: "gpu-feature-discovery", Image: pluginImage, Command: []string{"gpu-feature-discovery"}}),
		part("nvidia-dcgm-exporter", exporter),
		exporterService(),
	}
}

// part returns a DaemonSet of the operator, selected by the label app.
func part(name string, c v1.Container) *appsv1.DaemonSet {
	d := daemonSet(OperatorNamespace, name, map[string]string{"app": name}, c)
	maps.Copy(d.Spec.Template.Labels, operatorLabels())
	return d
}

func operatorLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "gpu-operator", "helm.sh/chart": "gpu-operator-" + operatorVersion}
}

// daemonSet returns a DaemonSet of one container on every simulated node with
// a GPU. As NVIDIA's manifests have it, its pods tolerate the taint
// nvidia.com/gpu and no other, so another taint keeps new ones off, and its
// container sees all GPUs of its node, as NVIDIA's images ask for in their
// environment.
func daemonSet(namespace, name string, selector map[string]string, c v1.Container) *appsv1.DaemonSet {
	c.Env = append(c.Env, v1.EnvVar{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"})
	return &appsv1.DaemonSet{
		ObjectMeta: meta(namespace, name, maps.Clone(selector)),
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type: appsv1.RollingUpdateDaemonSetStrategyType,
				// All at once: a simulated pod starts in no time, and a restart
				// that changes the sharing of 100 nodes should not take minutes.
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("100%"))},
			},
			Template: template(selector, c, map[string]string{
				"nvidia.com/gpu.present": "true",
				api.LabelSimulated:       "true",
			}),
		},
	}
}

// operator returns the Deployment of the operator itself.
func operator() *appsv1.Deployment {
	labels := map[string]string{"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"}
	d := &appsv1.Deployment{
		ObjectMeta: meta(OperatorNamespace, "gpu-operator", maps.Clone(labels)),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: template(labels, v1.Container{Name: "gpu-operator", Image: operatorImage, Command: []string{"gpu-operator"}},
				map[string]string{api.LabelSimulated: "true"}),
		},
	}
	maps.Copy(d.Labels, operatorLabels())
	return d
}

// template returns the pods of one of NVIDIA's workloads. They ask for little,
// so that they leave a node to its users, and run with the priority that
// NVIDIA gives them.
func template(labels map[string]string, c v1.Container, nodes map[string]string) v1.PodTemplateSpec {
	c.ImagePullPolicy = v1.PullIfNotPresent
	c.Resources.Requests = v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("10m"),
		v1.ResourceMemory: resource.MustParse("16Mi"),
	}
	return v1.PodTemplateSpec{
		ObjectMeta: meta("", "", maps.Clone(labels)),
		Spec: v1.PodSpec{
			Containers:        []v1.Container{c},
			NodeSelector:      nodes,
			PriorityClassName: "system-node-critical",
			Tolerations: []v1.Toleration{
				{Key: api.ResourceGPU, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
			},
		},
	}
}

// exporterService returns the Service in front of nvidia-dcgm-exporter, with
// the annotation by which Prometheus finds it.
func exporterService() *v1.Service {
	s := &v1.Service{
		ObjectMeta: meta(OperatorNamespace, "nvidia-dcgm-exporter", map[string]string{"app": "nvidia-dcgm-exporter"}),
		Spec: v1.ServiceSpec{
			Selector: map[string]string{"app": "nvidia-dcgm-exporter"},
			Ports: []v1.ServicePort{{
				Name: "gpu-metrics", Port: ExporterPort, TargetPort: intstr.FromInt32(ExporterPort), Protocol: v1.ProtocolTCP,
			}},
		},
	}
	s.Annotations["prometheus.io/scrape"] = "true"
	return s
}
