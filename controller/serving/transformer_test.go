package serving

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api/kserve"
	rules "berth.dev/berth/core/serving"
)

var transformed = strings.TrimSuffix(tensorflow, "}") + ", transformer: {maxReplicas: 2, containers: [{image: a, command: [serve]}]}}"

// transformer is the Deployment of the transformer, or nil.
func (w *world) transformer() *appsv1.Deployment { return w.deploymentOf("mnist-transformer") }

// leads is to which pods the Service mnist leads.
func (w *world) leads() string {
	w.t.Helper()
	s := &corev1.Service{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: "mnist"}, s); err != nil {
		w.t.Fatal(err)
	}
	return s.Spec.Selector["app"]
}

// transformerPod adds a pod of the transformer as it is now.
func (w *world) transformerPod(name string, change func(*corev1.Pod)) {
	w.t.Helper()
	w.podOf(w.transformer(), name, change)
}

func TestATransformerComesAndGoesWithTheModel(t *testing.T) {
	w := newWorld(t, transformed)
	w.traffic = &rules.Traffic{Since: w.now}
	w.pass()
	if d := w.transformer(); d == nil || *d.Spec.Replicas != 0 || w.leads() != "isvc.mnist-transformer" {
		t.Fatalf("beside no replicas of the model there is %+v, and the service leads to %s", d, w.leads())
	}
	w.says("Ready", "True", "ScaledToZero: no requests; the next request starts a replica")
	w.says("TransformerReady", "True", "ScaledToZero: the model has no replicas; the next request starts a replica")

	w.traffic = &rules.Traffic{Held: 1, Last: w.now, Since: w.now}
	w.pass()
	if n := *w.transformer().Spec.Replicas; n != 1 {
		t.Fatalf("%d replicas beside one of the model", n)
	}
	w.pod("p", ready)
	w.transformerPod("t", waits)
	w.pass()
	w.says("PredictorReady", "True", "1 of 1 replica ready")
	w.says("TransformerReady", "False", "WaitingForGPU: 0 of 1 replica ready: no node has a free GPU")
	w.says("Ready", "False", "WaitingForGPU")
	w.says("GPUQueued", "True", "no node has a free GPU")
	w.deletePod("t")
	w.transformerPod("t2", loading(w.now))
	w.pass()
	w.says("TransformerReady", "False", "0 of 1 replica ready: starting")
	w.deletePod("t2")
	w.transformerPod("t3", ready)
	w.pass()
	w.says("Ready", "True", "1 of 1 replica ready")
	if c := w.service().Status.Components[kserve.ComponentTransformer]; c.URL != "http://mnist-transformer.ml.svc.cluster.local" || w.service().Status.ModelStatus.Copies.TotalCopies != 1 {
		t.Errorf("the status is %+v", w.service().Status)
	}
	for range 3 {
		if n := w.pass(); n != 0 {
			t.Fatalf("a pass over a service at rest writes %d times", n)
		}
	}

	w.change(func(o *kserve.InferenceService) {
		o.Spec.Raw = []byte(strings.Replace(string(o.Spec.Raw), `"transformer"`, `"none"`, 1))
	})
	w.pass()
	if d := w.transformer(); d != nil || w.leads() != "isvc.mnist-predictor" {
		t.Errorf("without a transformer there is %+v, and the service leads to %s", d, w.leads())
	}
	w.says("Ready", "True", "1 of 1 replica ready")
	if s := w.service().Status; s.Condition("TransformerReady") != nil || len(s.Components) != 1 {
		t.Errorf("the status says of it: %+v", s)
	}
}

func TestATransformerIsStoppedWithItsService(t *testing.T) {
	w := newWorld(t, strings.Replace(transformed, "minReplicas: 0", "minReplicas: 1", 1))
	w.pass()
	if n := *w.transformer().Spec.Replicas; n != 1 {
		t.Fatalf("%d replicas", n)
	}
	w.change(func(o *kserve.InferenceService) { o.Annotations = map[string]string{kserve.AnnotationStop: "true"} })
	w.pass()
	if n := *w.transformer().Spec.Replicas; n != 0 {
		t.Errorf("%d replicas of a stopped service", n)
	}
	w.says("TransformerReady", "False", "Stopped: the service is stopped")
}

func TestATransformerThatIsRefusedLeavesTheModel(t *testing.T) {
	w := newWorld(t, strings.Replace(transformed, "minReplicas: 0", "minReplicas: 1", 1))
	w.pass()
	w.pod("p", ready)
	w.refuse = true
	w.change(func(o *kserve.InferenceService) {
		o.Spec.Raw = []byte(strings.Replace(string(o.Spec.Raw), `"serve"`, `"other"`, 1))
	})
	w.pass()
	w.says("PredictorReady", "True", "1 of 1 replica ready")
	w.says("TransformerReady", "False", "Deployment/mnist-transformer cannot be written: ")
}
