package serving

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"berth.dev/berth/api"
	rules "berth.dev/berth/core/serving"
)

// rows: ML-75

func TestAPolicyOfTheNamespaceTakesTheReplicasOfIdleServices(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ml", Annotations: map[string]string{api.AnnotationIdleAfter: "1h"}}}
	w := newWorld(t, strings.Replace(tensorflow, "minReplicas: 0", "minReplicas: 1", 1), ns)
	w.traffic = &rules.Traffic{Since: w.now, Last: w.now}
	replicas := func(want int32, when string) {
		t.Helper()
		w.pass()
		if d := w.deployment(); d == nil || *d.Spec.Replicas != want {
			t.Fatalf("%s the Deployment is %+v, want %d replicas", when, d, want)
		}
	}
	replicas(1, "at the start")
	w.pod("p", ready)
	replicas(1, "when its replica is ready")
	w.now = w.now.Add(59 * time.Minute)
	replicas(1, "before the time is over")
	w.now = w.now.Add(time.Minute)
	replicas(0, "after an hour without a request")
	w.says("Ready", "True", "ScaledToZero: no requests for 1h0m0s; the next request starts a replica")
	w.start()
	w.traffic = &rules.Traffic{Since: w.now}
	replicas(0, "after a restart of the controller")
	w.traffic = &rules.Traffic{Held: 1, Last: w.now, Since: w.now}
	replicas(1, "when a request comes")

	w.traffic = &rules.Traffic{Since: w.now}
	w.now = w.now.Add(2 * time.Hour)
	change := func(own string) {
		o := w.service()
		o.Annotations = map[string]string{api.AnnotationIdleAfter: own}
		if err := w.client.Update(context.Background(), o); err != nil {
			t.Fatal(err)
		}
	}
	revision := w.deployment().Spec.Template.Annotations[api.AnnotationServingSpec]
	change("never")
	replicas(1, "with an own annotation of never")
	if is := w.deployment().Spec.Template.Annotations[api.AnnotationServingSpec]; is != revision {
		t.Errorf("the annotation starts a new revision: %s, was %s", is, revision)
	}
	change("an hour")
	replicas(1, "with an own annotation that cannot be read")
	w.pass()
	told := 0
	for events := w.r.events.(*record.FakeRecorder).Events; len(events) > 0; {
		if e := <-events; strings.Contains(e, `IdlePolicy annotations: "an hour" is not a time without activity`) {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d events say that the annotation cannot be read, want 1", told)
	}
}
