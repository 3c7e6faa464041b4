package kubelet

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// metricsWindow is the interval that a figure stands for.
const metricsWindow = 10 * time.Second

// MetricsAPI serves metrics.k8s.io/v1beta1, for kubectl top and for
// autoscalers: nodes and running pods, with label and field selectors, as
// JSON. It neither watches nor speaks protobuf, nor has it an OpenAPI schema.
func (s *Server) MetricsAPI() http.Handler {
	const root = "/apis/metrics.k8s.io/v1beta1"
	mux := http.NewServeMux()
	fixed := func(path string, v any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, v) })
	}
	fixed("/apis", &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{metricsGroup("", "")}})
	fixed("/apis/metrics.k8s.io", metricsGroup("APIGroup", "v1"))
	fixed(root, &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: metricsv1beta1.SchemeGroupVersion.String(),
		APIResources: []metav1.APIResource{
			{Name: "nodes", Kind: "NodeMetrics", Verbs: metav1.Verbs{"get", "list"}},
			{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
		},
	})
	mux.HandleFunc("GET "+root+"/nodes", s.listNodes)
	mux.HandleFunc("GET "+root+"/nodes/{name}", s.getNode)
	mux.HandleFunc("GET "+root+"/pods", s.listPods)
	mux.HandleFunc("GET "+root+"/namespaces/{namespace}/pods", s.listPods)
	mux.HandleFunc("GET "+root+"/namespaces/{namespace}/pods/{name}", s.getPod)
	for _, path := range []string{"/healthz", "/readyz", "/livez"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "404 page not found: the metrics API has no %s", r.URL.Path)
	})
	return mux
}

func metricsGroup(kind, version string) metav1.APIGroup {
	gv := metricsv1beta1.SchemeGroupVersion
	v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
	return metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: kind, APIVersion: version},
		Name:     gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
	}
}

// selector reads labelSelector and fieldSelector; it answers and returns false
// where they or the verb are not understood.
func selector(w http.ResponseWriter, r *http.Request, resource string) (labels.Selector, fields.Selector, bool) {
	q := r.URL.Query()
	if v := q.Get("watch"); v == "true" || v == "1" {
		fail(w, apierrors.NewMethodNotSupported(schema.GroupResource{Group: metricsv1beta1.GroupName, Resource: resource}, "watch"))
		return nil, nil, false
	}
	byLabel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		fail(w, apierrors.NewBadRequest(fmt.Sprintf("labelSelector: %v", err)))
		return nil, nil, false
	}
	byField, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		fail(w, apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: %v", err)))
		return nil, nil, false
	}
	return byLabel, byField, true
}

// fail answers with a Status.
func fail(w http.ResponseWriter, err *apierrors.StatusError) {
	st := err.Status()
	st.Kind, st.APIVersion = "Status", "v1"
	answer(w, int(st.Code), st)
}

func (s *Server) listNodes(w http.ResponseWriter, r *http.Request) {
	byLabel, byField, ok := selector(w, r, "nodes")
	if !ok {
		return
	}
	list := metricsv1beta1.NodeMetricsList{TypeMeta: typeMeta("NodeMetricsList"), Items: []metricsv1beta1.NodeMetrics{}}
	for _, node := range s.rt.Nodes() {
		m := s.nodeMetrics(node)
		if byLabel.Matches(labels.Set(m.Labels)) && byField.Matches(fields.Set{"metadata.name": node}) {
			list.Items = append(list.Items, m)
		}
	}
	answer(w, http.StatusOK, list)
}

func (s *Server) getNode(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !slices.Contains(s.rt.Nodes(), name) {
		fail(w, apierrors.NewNotFound(schema.GroupResource{Group: metricsv1beta1.GroupName, Resource: "nodes"}, name))
		return
	}
	m := s.nodeMetrics(name)
	m.TypeMeta = typeMeta("NodeMetrics")
	answer(w, http.StatusOK, m)
}

func (s *Server) nodeMetrics(node string) metricsv1beta1.NodeMetrics {
	now := metav1.NewTime(s.now())
	cpu, memory := s.rt.Usage(node)
	set := map[string]string{corev1.LabelHostname: node}
	if l, ok := s.rt.(NodeLabels); ok {
		set = l.NodeLabels(node)
	}
	return metricsv1beta1.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: node, Labels: set, CreationTimestamp: now},
		Timestamp:  now, Window: metav1.Duration{Duration: metricsWindow}, Usage: quantities(cpu, memory),
	}
}

func (s *Server) listPods(w http.ResponseWriter, r *http.Request) {
	byLabel, byField, ok := selector(w, r, "pods")
	if !ok {
		return
	}
	list := metricsv1beta1.PodMetricsList{TypeMeta: typeMeta("PodMetricsList"), Items: []metricsv1beta1.PodMetrics{}}
	for _, cs := range podsOf(running(s.rt.Containers("", r.PathValue("namespace"), ""))) {
		set := fields.Set{"metadata.name": cs[0].Pod, "metadata.namespace": cs[0].Namespace, "spec.nodeName": cs[0].Node}
		if byLabel.Matches(labels.Set(cs[0].Labels)) && byField.Matches(set) {
			list.Items = append(list.Items, s.podMetrics(cs))
		}
	}
	answer(w, http.StatusOK, list)
}

func (s *Server) getPod(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	cs := running(s.rt.Containers("", r.PathValue("namespace"), name))
	if len(cs) == 0 {
		fail(w, apierrors.NewNotFound(schema.GroupResource{Group: metricsv1beta1.GroupName, Resource: "pods"}, name))
		return
	}
	m := s.podMetrics(cs)
	m.TypeMeta = typeMeta("PodMetrics")
	answer(w, http.StatusOK, m)
}

// podMetrics adds up one pod, of which cs are the running containers.
func (s *Server) podMetrics(cs []Container) metricsv1beta1.PodMetrics {
	now := metav1.NewTime(s.now())
	m := metricsv1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Namespace: cs[0].Namespace, Name: cs[0].Pod, Labels: cs[0].Labels, CreationTimestamp: now},
		Timestamp:  now, Window: metav1.Duration{Duration: metricsWindow},
	}
	for _, c := range cs {
		m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: quantities(c.CPUMilli, c.MemoryBytes)})
	}
	return m
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: metricsv1beta1.SchemeGroupVersion.String()}
}

func quantities(cpuMilli, memoryBytes int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(cpuMilli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memoryBytes, resource.BinarySI),
	}
}
