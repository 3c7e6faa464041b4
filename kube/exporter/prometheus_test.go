package exporter_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/exporter"
)

func TestPrometheuses(t *testing.T) {
	pod := func(name, labels, image string, phase v1.PodPhase, ports ...v1.ContainerPort) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: name, Labels: map[string]string{}}, Status: v1.PodStatus{Phase: phase}}
		for l := range strings.FieldsSeq(labels) {
			key, value, _ := strings.Cut(l, "=")
			p.Labels[key] = value
		}
		p.Spec.Containers = []v1.Container{{Name: "reloader", Image: "quay.io/prometheus-operator/prometheus-config-reloader:v0.80.0", Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080}}}, {Name: "main", Image: image, Ports: ports}}
		return p
	}
	operator := pod("prometheus-k8s-1", "app.kubernetes.io/name=prometheus operator.prometheus.io/name=k8s", "quay.io/prometheus/prometheus:v3.5.0", v1.PodRunning, v1.ContainerPort{Name: "web", ContainerPort: 9091})
	chart := pod("a-server-x", "app.kubernetes.io/name=prometheus app.kubernetes.io/component=server", "quay.io/prometheus/prometheus@sha256:0", v1.PodRunning, v1.ContainerPort{ContainerPort: 9090})
	old := pod("old-server", "app=prometheus component=server", "prom/prometheus:v2.19.0", v1.PodRunning)
	var names []string
	for _, p := range exporter.Prometheuses([]*v1.Pod{
		operator, operator, chart, old,
		pod("pending", "app=prometheus", "prom/prometheus", v1.PodPending),
		pod("alertmanager", "app=prometheus component=alertmanager", "prom/alertmanager:v0.27.0", v1.PodRunning),
		pod("node-exporter", "app=prometheus", "prom/node-exporter", v1.PodRunning),
		pod("unlabeled", "", "prom/prometheus", v1.PodRunning),
	}) {
		names = append(names, p.Name+":"+exporter.PrometheusPort(p))
	}
	if got := strings.Join(names, " "); got != "a-server-x:9090 old-server:9090 prometheus-k8s-1:9091" {
		t.Errorf("found are %s", got)
	}
}
