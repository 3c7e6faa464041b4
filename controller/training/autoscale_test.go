package training

import (
	"fmt"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api/kubeflow"
)

const cpuMetric = `{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":60}}}`

// elasticJob returns a PyTorchJob of 2 workers, that may be 1 to 4, with metrics.
func elasticJob(metrics ...string) *kubeflow.PyTorchJob {
	o := &kubeflow.PyTorchJob{}
	o.Namespace, o.Name, o.Generation = "ml", "mnist", 1
	o.Spec.PyTorchReplicaSpecs = map[string]kubeflow.ReplicaSpec{"Worker": {Replicas: new(int32(2)), Template: runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"pytorch","image":"x"}]}}`)}}}
	o.Spec.ElasticPolicy = &kubeflow.ElasticPolicy{MinReplicas: new(int32(1)), MaxReplicas: new(int32(4))}
	for _, m := range metrics {
		o.Spec.ElasticPolicy.Metrics = append(o.Spec.ElasticPolicy.Metrics, runtime.RawExtension{Raw: []byte(m)})
	}
	return o
}

// autoscaler returns the HorizontalPodAutoscaler of the job in a line, or "none".
func (c *testCluster) autoscaler() string {
	c.t.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist"}, h)
	if client.IgnoreNotFound(err) != nil {
		c.t.Fatal(err)
	}
	if err != nil {
		return "none"
	}
	of := "nobody's"
	if ref := metav1.GetControllerOfNoCopy(h); ref != nil {
		of = string(ref.UID) + "'s"
	}
	s := h.Spec
	text := fmt.Sprintf("%s, %s %s", of, s.ScaleTargetRef.Kind, s.ScaleTargetRef.Name)
	if s.MinReplicas != nil {
		text += fmt.Sprintf(" %d-%d", *s.MinReplicas, s.MaxReplicas)
	}
	for _, m := range s.Metrics {
		text += " " + string(m.Resource.Name)
	}
	return text
}

// changeJob changes the spec of the job.
func (c *testCluster) changeJob(change func(*kubeflow.PyTorchJob)) {
	c.t.Helper()
	o := &kubeflow.PyTorchJob{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist"}, o); err != nil {
		c.t.Fatal(err)
	}
	change(o)
	if err := c.client.Update(c.t.Context(), o); err != nil {
		c.t.Fatal(err)
	}
}

// TestAutoscaler follows an elastic job with metrics: created, changed, suspended, and resumed, with a controller that is killed at each
// write in turn.
func TestAutoscaler(t *testing.T) {
	life := func(breaks int, done bool) (*testCluster, string) {
		c := newCluster(t, elasticJob(cpuMetric))
		c.breaks, c.done = breaks, done
		var story []string
		for _, change := range []func(*kubeflow.PyTorchJob){
			func(*kubeflow.PyTorchJob) {},
			func(o *kubeflow.PyTorchJob) { *o.Spec.ElasticPolicy.MaxReplicas = 3 },
			func(o *kubeflow.PyTorchJob) { o.Spec.RunPolicy.Suspend = new(true) },
			func(o *kubeflow.PyTorchJob) { o.Spec.RunPolicy.Suspend = new(false) },
		} {
			c.changeJob(change)
			c.settle()
			story = append(story, c.autoscaler())
		}
		return c, strings.Join(story, "; ")
	}
	whole, got := life(0, false)
	const want = "job's, PyTorchJob mnist 1-4 cpu; job's, PyTorchJob mnist 1-3 cpu; none; job's, PyTorchJob mnist 1-3 cpu"
	if got != want {
		t.Fatalf("undisturbed: %s\nwant %s", got, want)
	}
	writes := len(whole.writes)
	whole.start(whole.r.kind)
	if whole.settle(); len(whole.writes) != writes {
		t.Errorf("a restart of the controller writes %q", whole.writes[writes:])
	}
	for n := range whole.writes {
		for _, done := range []bool{false, true} {
			if _, got := life(n+1, done); got != want {
				t.Errorf("killed at write %d (%s; carried out: %v): %s", n+1, whole.writes[n], done, got)
			}
		}
	}
}

// TestNoAutoscaler holds that a HorizontalPodAutoscaler that cannot be created delays nothing, and is reported once.
func TestNoAutoscaler(t *testing.T) {
	theirs := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "mnist"}}
	for _, tt := range []struct {
		name   string
		metric string
		others []client.Object
		want   string
	}{
		{"one of that name is there", cpuMetric, []client.Object{theirs}, "horizontalpodautoscaler mnist exists and belongs to something else"},
		{"a metric that is not one", `{"resource":{"target":3}}`, nil, "spec.elasticPolicy.metrics[0]: not a metric of a HorizontalPodAutoscaler"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, elasticJob(tt.metric), tt.others...)
			c.settle()
			c.changeJob(func(o *kubeflow.PyTorchJob) { o.Annotations = map[string]string{"a": "b"} })
			c.settle()
			if got := c.children(); got != "pod worker-0, pod worker-1, service worker-0, service worker-1" {
				t.Errorf("the job has %s", got)
			}
			n := 0
			for len(c.told) > 0 {
				if strings.Contains(<-c.told, tt.want) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d events say %q", n, tt.want)
			}
		})
	}
}
