package serving

import (
	"context"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api/kserve"
	objects "berth.dev/berth/kube/serving"
)

// outside has services reached by a way.
func (w *world) outside(route string) {
	w.t.Helper()
	var err error
	if w.r.o.Outside, err = objects.ParseOutside("example.com", route); err != nil {
		w.t.Fatal(err)
	}
}

// at returns an object by which the service is reached; nil is none.
func (w *world) at() *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(w.r.o.Outside.Kind())
	if w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: "mnist"}, u) != nil {
		return nil
	}
	return u
}

func TestAServiceIsReachedByAnIngress(t *testing.T) {
	w := newWorld(t, tensorflow)
	w.outside("ingress:nginx")
	w.pass()
	if u := w.at(); u == nil || u.GetOwnerReferences()[0].UID != "u" {
		t.Fatalf("the Ingress is %+v", u)
	}
	w.says("IngressReady", "True", "")
	if s := w.service().Status; s.URL != "http://mnist-ml.example.com" || s.Address.URL != "http://mnist.ml.svc.cluster.local" {
		t.Errorf("the URLs are %s and %s", s.URL, s.Address.URL)
	}
	if n := w.pass(); n != 0 {
		t.Errorf("a pass at rest writes %d times", n)
	}

	// What another client changes is mended when it is looked at again.
	u := w.at()
	u.Object["spec"].(map[string]any)["ingressClassName"] = "other"
	if err := w.client.Update(context.Background(), u); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(routeAgain)
	w.pass()
	if class := w.at().Object["spec"].(map[string]any)["ingressClassName"]; class != "nginx" {
		t.Errorf("the class is %v", class)
	}

	w.change(func(o *kserve.InferenceService) {
		o.Labels = map[string]string{kserve.LabelVisibility: kserve.VisibilityClusterLocal}
	})
	w.pass()
	if u := w.at(); u != nil || w.service().Status.URL != "http://mnist.ml.svc.cluster.local" {
		t.Errorf("a service that is local to the cluster has %+v at %s", u, w.service().Status.URL)
	}
}

func TestAnIngressOfOthersStays(t *testing.T) {
	other := &networkingv1.Ingress{}
	other.Namespace, other.Name = "ml", "mnist"
	w := newWorld(t, tensorflow, other)
	w.outside("ingress:nginx")
	w.pass()
	w.says("IngressReady", "False", "NoRoute: Ingress mnist exists and does not belong to this service; rename the service, or delete that object (kubectl delete ingress mnist -n ml)")
	w.change(func(o *kserve.InferenceService) {
		o.Labels = map[string]string{kserve.LabelVisibility: kserve.VisibilityClusterLocal}
	})
	if w.pass(); w.at() == nil {
		t.Error("the Ingress was deleted")
	}
}

func TestAGatewayHasToTakeAnHTTPRoute(t *testing.T) {
	w := newWorld(t, tensorflow)
	w.outside("gateway:kserve/gate")
	w.pass()
	w.says("IngressReady", "False", "NoRoute: no controller has taken the HTTPRoute for Gateway kserve/gate yet")
	for _, tt := range []struct{ status, is, says string }{
		{"False", "False", "NoRoute: Gateway kserve/gate does not take HTTPRoute mnist: no listener for the host"},
		{"True", "True", ""},
	} {
		u := w.at()
		u.Object["status"] = map[string]any{"parents": []any{map[string]any{"conditions": []any{map[string]any{"type": "Accepted", "status": tt.status, "message": "no listener for the host"}}}}}
		if err := w.client.Update(context.Background(), u); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(routeSoon)
		w.pass()
		w.says("IngressReady", tt.is, tt.says)
	}
}
