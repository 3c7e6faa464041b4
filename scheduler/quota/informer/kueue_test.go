package informer

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// TestKueueIsTakenToRunUntilItIsKnown: what carries its label must not be in two lines.
func TestKueueIsTakenToRunUntilItIsKnown(t *testing.T) {
	client := fake.NewClientset()
	fails := true
	client.PrependReactor("get", "resource", func(k8stesting.Action) (bool, runtime.Object, error) {
		if fails {
			return true, nil, errors.New("not now")
		}
		return false, nil, nil
	})
	served := client.Discovery().(*fakediscovery.FakeDiscovery)
	w := New(nil, nil, nil)
	if w.findKueue(served) || !w.kueue.Load() {
		t.Error("an API server that does not answer counts as one without Kueue, or as one with it for good")
	}
	fails = false
	if w.findKueue(served) || w.kueue.Load() {
		t.Error("Kueue runs though nothing of it is served")
	}
	served.Resources = []*metav1.APIResourceList{{GroupVersion: "kueue.x-k8s.io/v1beta1", APIResources: []metav1.APIResource{{Name: "localqueues"}}}}
	if !w.findKueue(served) || !w.kueue.Load() {
		t.Error("Kueue does not run though its LocalQueues are served")
	}
}
