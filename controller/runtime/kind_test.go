package runtime

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keeps returns a kind whose controllers keep such objects.
func keeps(name string, objects ...client.Object) Kind {
	o := cache.Options{ByObject: map[client.Object]cache.ByObject{}}
	for _, object := range objects {
		o.ByObject[object] = cache.ByObject{}
	}
	return Kind{Name: name, Cache: func() cache.Options { return o }}
}

func TestNoTwoKindsSayWhatToKeepOfOneType(t *testing.T) {
	pods, services := &corev1.Pod{}, &corev1.Service{}
	if o, err := cacheOptions([]Kind{keeps("A", pods), keeps("B", services)}); err != nil || len(o.ByObject) != 3 {
		t.Errorf("cacheOptions = %d types, %v; want pods, services and deployments", len(o.ByObject), err)
	}
	_, err := cacheOptions([]Kind{keeps("A", pods), keeps("B", services, &corev1.Pod{})})
	if err == nil || !strings.Contains(err.Error(), "A and B") || !strings.Contains(err.Error(), "v1.Pod") {
		t.Errorf("cacheOptions of two kinds that keep pods = %v, want an error that names all three", err)
	}
}

// TestKindsRecordTheirModesSideBySide holds the record of modes to one key a kind:
// what one kind applies must leave the keys of the others.
func TestKindsRecordTheirModesSideBySide(t *testing.T) {
	first, second := newTestWatcher(Auto, &deployments{}), newTestWatcher("govern", &deployments{})
	second.kind.Name, second.client = "Service", first.client
	for _, w := range []*modeWatcher{first, second, first} {
		s, err := w.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.record(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	record, err := first.client.CoreV1().ConfigMaps(Namespace).Get(t.Context(), Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if record.Data["notebooks"] != "own" || record.Data["services"] != "govern" {
		t.Errorf("the record is %v, want notebooks own and services govern", record.Data)
	}
}
