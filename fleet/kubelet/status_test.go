package kubelet_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metrics "k8s.io/metrics/pkg/client/clientset/versioned"

	"berth.dev/berth/fleet/kubelet"
)

// two returns a running pod of two containers, and one that has ended.
func two() []kubelet.Container {
	a, b, ended := pod("train"), pod("train"), pod("done")
	b.Name, b.CPUMilli, b.MemoryBytes = "sidecar", 50, 64<<20
	ended.State, ended.Reason = kubelet.StateTerminated, "Completed"
	return []kubelet.Container{a, b, ended}
}

func TestMetricsAPI(t *testing.T) {
	srv := httptest.NewServer(kubelet.New(&fakeRuntime{cs: two()}, fixed).MetricsAPI())
	defer srv.Close()
	c, err := metrics.NewForConfig(&rest.Config{Host: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	nodes, err := c.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 2 || nodes.Items[0].Name != node || nodes.Items[0].Usage.Cpu().String() != "1500m" || nodes.Items[0].Usage.Memory().String() != "4Gi" {
		t.Errorf("nodes = %+v, want two of 1500m and 4Gi", nodes.Items)
	}
	if _, err := c.MetricsV1beta1().NodeMetricses().Get(ctx, "nobody", metav1.GetOptions{}); err == nil || err.Error() != `nodes.metrics.k8s.io "nobody" not found` {
		t.Errorf("a node that is not there: %v", err)
	}
	one, err := c.MetricsV1beta1().PodMetricses("default").Get(ctx, "train", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range one.Containers {
		got = append(got, c.Name+" "+c.Usage.Cpu().String()+" "+c.Usage.Memory().String())
	}
	if diff := cmp.Diff([]string{"main 250m 512Mi", "sidecar 50m 64Mi"}, got); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if _, err := c.MetricsV1beta1().PodMetricses("default").Get(ctx, "done", metav1.GetOptions{}); err == nil {
		t.Error("a pod that has ended has metrics")
	}
	for sel, want := range map[string]int{"": 1, "app=train": 1, "app=other": 0, "app in (train)": 1} {
		list, err := c.MetricsV1beta1().PodMetricses("").List(ctx, metav1.ListOptions{LabelSelector: sel})
		if err != nil || len(list.Items) != want {
			t.Errorf("pods with %q: %d, %v; want %d", sel, len(list.Items), err, want)
		}
	}
	if _, err := c.MetricsV1beta1().PodMetricses("").List(ctx, metav1.ListOptions{LabelSelector: "a b"}); err == nil {
		t.Error("a selector that cannot be read is taken")
	}
	resources, err := c.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
	if err != nil || len(resources.APIResources) != 2 {
		t.Errorf("discovery: %v, %v; want nodes and pods", resources, err)
	}
}

func TestMetricsAPIHasNoSchema(t *testing.T) {
	h := kubelet.New(&fakeRuntime{}, fixed).MetricsAPI()
	for path, want := range map[string]int{"/openapi/v2": 404, "/openapi/v3": 404, "/healthz": 200, "/apis": 200, "/apis/metrics.k8s.io": 200} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("GET %s = %d, want %d", path, w.Code, want)
		}
	}
}

func TestSummaryAndPods(t *testing.T) {
	s := kubelet.New(&fakeRuntime{cs: two()}, fixed)
	var sum statsv1alpha1.Summary
	if err := json.Unmarshal(get(t.Context(), s, node, "/stats/summary").Body.Bytes(), &sum); err != nil {
		t.Fatal(err)
	}
	// 250m + 50m; a minute at each is 15 + 3 CPU-seconds.
	p := sum.Pods[0]
	if len(sum.Pods) != 1 || *p.CPU.UsageNanoCores != 300e6 || *p.CPU.UsageCoreNanoSeconds != 18e9 || *p.Memory.WorkingSetBytes != 576<<20 {
		t.Errorf("summary of train: %v, want 0.3 cores, 18 CPU-seconds and 576 MiB", p)
	}
	var list corev1.PodList
	if err := json.Unmarshal(get(t.Context(), s, node, "/pods").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 2 || len(list.Items[0].Spec.Containers) != 2 || list.Items[1].Status.ContainerStatuses[0].State.Terminated.Reason != "Completed" {
		t.Errorf("pods: %+v, want train with two containers, and done, completed", list.Items)
	}
	if err := json.Unmarshal(get(t.Context(), s, node, "/runningpods/").Body.Bytes(), &list); err != nil || len(list.Items) != 1 {
		t.Errorf("running pods: %d, %v; want 1", len(list.Items), err)
	}
}

func TestCPUCountersNeverFall(t *testing.T) {
	rt, now := &fakeRuntime{cs: two()[:1]}, epoch
	s := kubelet.New(rt, func() time.Time { return now })
	series := `container_cpu_usage_seconds_total{container="main",namespace="default",pod="train"} `
	read := func() float64 {
		body := get(t.Context(), s, node, "/metrics/resource").Body.String()
		_, rest, ok := strings.Cut(body, "\n"+series)
		if !ok {
			t.Fatalf("no %s in\n%s", series, body)
		}
		v, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if got := read(); got != 15 { // a minute at 250m
		t.Errorf("first reading %g, want 15", got)
	}
	c := pod("train")
	c.CPUMilli = 0
	rt.set(c)
	now = now.Add(time.Minute)
	if got := read(); got != 15 {
		t.Errorf("after an idle minute %g, want 15", got)
	}
	now = now.Add(-time.Hour) // the clock is set back
	if got := read(); got != 15 {
		t.Errorf("after the clock was set back %g, want 15", got)
	}
}
