package exporter

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/kube/view"
)

// PrometheusSelectors select, each alone, the pods among which a Prometheus is looked for: by the label that Prometheus' operator, and with it
// kube-prometheus-stack, and newer charts of prometheus-community give, and by that of older charts and of manifests of tutorials.
var PrometheusSelectors = []string{"app.kubernetes.io/name=prometheus", "app=prometheus"}

// RunsPrometheus reports whether a pod has a container that runs a Prometheus server: Alertmanager and exporters often have the same labels.
func RunsPrometheus(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c v1.Container) bool { return view.ImageName(c.Image) == "prometheus" })
}

// Prometheuses picks the pods that can be asked as a Prometheus, in the order of namespace and name: with a label of PrometheusSelectors, and running.
func Prometheuses(pods []*v1.Pod) []*v1.Pod {
	var out []*v1.Pod
	for _, p := range pods {
		labeled := slices.ContainsFunc(PrometheusSelectors, func(s string) bool {
			key, value, _ := strings.Cut(s, "=")
			return p.Labels[key] == value
		})
		if labeled && RunsPrometheus(p) && p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(out, func(a, b *v1.Pod) bool { return a.Namespace == b.Namespace && a.Name == b.Name })
}

// PrometheusPort is the port of a pod with a Prometheus: its web port by name, as the operator and charts have it, or 9090.
func PrometheusPort(p *v1.Pod) string {
	for _, c := range p.Spec.Containers {
		if view.ImageName(c.Image) != "prometheus" {
			continue
		}
		for _, port := range c.Ports {
			if slices.Contains([]string{"web", "http-web", "http"}, port.Name) {
				return strconv.Itoa(int(port.ContainerPort))
			}
		}
	}
	return "9090"
}
