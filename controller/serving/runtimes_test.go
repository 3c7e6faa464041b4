package serving

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	objects "berth.dev/berth/kube/serving"
)

func TestAVersionOfARuntimeIsReadOnce(t *testing.T) {
	r, meta := &runtimes{}, &metav1.ObjectMeta{Name: "sk", UID: "u", ResourceVersion: "1"}
	spec := func(text string) k8sruntime.RawExtension { return k8sruntime.RawExtension{Raw: []byte(text)} }
	first := r.read(meta, spec(`{"multiModel":false}`), true)
	if first == nil || r.read(meta, spec(`{"multiModel":true}`), true) != first {
		t.Error("the same version was read twice")
	}
	meta.ResourceVersion = "2"
	if second := r.read(meta, spec(`{"multiModel":true}`), true); second == nil || !second.MultiModel {
		t.Errorf("the next version is %+v", second)
	}
	meta.ResourceVersion = "3"
	if bad := r.read(meta, spec(`{`), true); bad != nil || r.read(meta, spec(`{`), true) != nil {
		t.Errorf("one that cannot be read is %+v", bad)
	}
}

func TestRequestsThatComeAgainAreNoticed(t *testing.T) {
	none, some := &objects.Requests{}, &objects.Requests{InFlight: 1, Stable: 0.1}
	for _, c := range []struct {
		name    string
		was, is *objects.Requests
		want    bool
	}{
		{"a service at rest", none, none, false},
		{"its first request", none, some, true},
		{"a service that nothing was known of", nil, some, true},
		{"one more request", some, some, false},
		{"requests have ended, and are still in the mean", &objects.Requests{Stable: 0.1}, some, false},
		{"the last has ended", some, none, false},
	} {
		if got := begins(c.was, c.is); got != c.want {
			t.Errorf("%s: begins = %v, want %v", c.name, got, c.want)
		}
	}
}
