package kubelet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "encode the answer: %v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}

// servePods is GET /pods: the pods of the node with the parts of spec and
// status that the Runtime tells.
func (s *Server) servePods(w http.ResponseWriter, _ *http.Request, node string) {
	answer(w, http.StatusOK, podList(s.rt.Containers(node, "", "")))
}

// serveRunningPods is GET /runningpods/: those with a running container.
func (s *Server) serveRunningPods(w http.ResponseWriter, _ *http.Request, node string) {
	answer(w, http.StatusOK, podList(running(s.rt.Containers(node, "", ""))))
}

func podList(cs []Container) corev1.PodList {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{}}
	for _, cs := range podsOf(cs) {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: cs[0].Namespace, Name: cs[0].Pod, UID: types.UID(cs[0].UID), Labels: cs[0].Labels,
		}}
		pod.Spec.NodeName = cs[0].Node
		for _, c := range cs {
			spec := corev1.Container{Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args, WorkingDir: c.WorkingDir}
			for _, port := range c.Ports {
				spec.Ports = append(spec.Ports, corev1.ContainerPort{ContainerPort: int32(port)})
			}
			if c.Init {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, spec)
				pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status(c))
				continue
			}
			pod.Spec.Containers = append(pod.Spec.Containers, spec)
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status(c))
		}
		list.Items = append(list.Items, pod)
	}
	return list
}

// status is the container's status as the pod shows it.
func status(c Container) corev1.ContainerStatus {
	st := corev1.ContainerStatus{Name: c.Name, Image: c.Image, RestartCount: int32(c.RestartCount)}
	switch c.State {
	case StateRunning:
		st.Ready = true
		st.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.StartedAt)}
	case StateTerminated:
		st.State.Terminated = &corev1.ContainerStateTerminated{
			Reason: c.Reason, StartedAt: metav1.NewTime(c.StartedAt), FinishedAt: metav1.NewTime(c.FinishedAt),
		}
	default:
		st.State.Waiting = &corev1.ContainerStateWaiting{Reason: c.Reason}
	}
	return st
}

// serveSummary is GET /stats/summary: CPU and memory of the node, its pods and
// their containers.
func (s *Server) serveSummary(w http.ResponseWriter, _ *http.Request, node string) {
	n := s.stats(node)
	at := metav1.NewTime(n.now)
	out := statsv1alpha1.Summary{Pods: []statsv1alpha1.PodStats{}}
	out.Node.NodeName = node
	out.Node.CPU, out.Node.Memory = figures(at, n.cpuMilli, n.cpuSeconds, n.memoryBytes)
	for _, p := range n.pods {
		first := p.containers[0]
		pod := statsv1alpha1.PodStats{
			PodRef:    statsv1alpha1.PodReference{Namespace: first.Namespace, Name: first.Pod, UID: first.UID},
			StartTime: metav1.NewTime(first.StartedAt),
		}
		var cpu, memory int64
		var seconds float64
		for i, c := range p.containers {
			cs := statsv1alpha1.ContainerStats{Name: c.Name, StartTime: metav1.NewTime(c.StartedAt)}
			cs.CPU, cs.Memory = figures(at, c.CPUMilli, p.cpuSeconds[i], c.MemoryBytes)
			pod.Containers = append(pod.Containers, cs)
			cpu, memory, seconds = cpu+c.CPUMilli, memory+c.MemoryBytes, seconds+p.cpuSeconds[i]
		}
		pod.CPU, pod.Memory = figures(at, cpu, seconds, memory)
		out.Pods = append(out.Pods, pod)
	}
	answer(w, http.StatusOK, out)
}

// figures puts CPU and memory into the units of the summary.
func figures(at metav1.Time, cpuMilli int64, seconds float64, memory int64) (*statsv1alpha1.CPUStats, *statsv1alpha1.MemoryStats) {
	nano, total, bytes := uint64(cpuMilli)*1e6, uint64(seconds*1e9), uint64(memory)
	return &statsv1alpha1.CPUStats{Time: at, UsageNanoCores: &nano, UsageCoreNanoSeconds: &total},
		&statsv1alpha1.MemoryStats{Time: at, UsageBytes: &bytes, WorkingSetBytes: &bytes}
}

// serveResourceMetrics is GET /metrics/resource, in Prometheus' text format
// with the names that the kubelet documents and metrics-server reads.
func (s *Server) serveResourceMetrics(w http.ResponseWriter, _ *http.Request, node string) {
	n := s.stats(node)
	var cpu, memory, start, podCPU, podMemory strings.Builder
	ms := n.now.UnixMilli()
	for _, p := range n.pods {
		var podSeconds float64
		var podBytes int64
		for i, c := range p.containers {
			labels := fmt.Sprintf("{container=%q,namespace=%q,pod=%q}", c.Name, c.Namespace, c.Pod)
			fmt.Fprintf(&cpu, "container_cpu_usage_seconds_total%s %g %d\n", labels, p.cpuSeconds[i], ms)
			fmt.Fprintf(&memory, "container_memory_working_set_bytes%s %d %d\n", labels, c.MemoryBytes, ms)
			fmt.Fprintf(&start, "container_start_time_seconds%s %g\n", labels, float64(c.StartedAt.UnixNano())/float64(time.Second))
			podSeconds, podBytes = podSeconds+p.cpuSeconds[i], podBytes+c.MemoryBytes
		}
		labels := fmt.Sprintf("{namespace=%q,pod=%q}", p.containers[0].Namespace, p.containers[0].Pod)
		fmt.Fprintf(&podCPU, "pod_cpu_usage_seconds_total%s %g %d\n", labels, podSeconds, ms)
		fmt.Fprintf(&podMemory, "pod_memory_working_set_bytes%s %d %d\n", labels, podBytes, ms)
	}
	w.Header().Set("Content-Type", metricsType)
	for _, f := range []struct{ name, kind, help, series string }{
		{"container_cpu_usage_seconds_total", "counter", "CPU time used by the container, in core-seconds", cpu.String()},
		{"container_memory_working_set_bytes", "gauge", "Working set of the container, in bytes", memory.String()},
		{"container_start_time_seconds", "gauge", "Start of the container, in seconds of the Unix epoch", start.String()},
		{"node_cpu_usage_seconds_total", "counter", "CPU time used by the node, in core-seconds", fmt.Sprintf("node_cpu_usage_seconds_total %g %d\n", n.cpuSeconds, ms)},
		{"node_memory_working_set_bytes", "gauge", "Working set of the node, in bytes", fmt.Sprintf("node_memory_working_set_bytes %d %d\n", n.memoryBytes, ms)},
		{"pod_cpu_usage_seconds_total", "counter", "CPU time used by the pod, in core-seconds", podCPU.String()},
		{"pod_memory_working_set_bytes", "gauge", "Working set of the pod, in bytes", podMemory.String()},
		{"resource_scrape_error", "gauge", "1 if the figures could not be read, else 0", "resource_scrape_error 0\n"},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s", f.name, f.help, f.name, f.kind, f.series)
	}
}

// metricsType is the content type of Prometheus' text format.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"
