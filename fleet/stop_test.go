package fleet_test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

func TestAPodTakesAsLongToEndAsItsAnnotationSays(t *testing.T) {
	for _, tt := range []struct {
		name, note string
		grace      int64
		ends       time.Duration
	}{
		{"a second", "", 30, time.Second},
		{"the time that it says", "{stop: 12s}", 30, 12 * time.Second},
		{"its grace period", "{stop: grace}", 30, 30 * time.Second},
		{"never longer than its grace period", "{stop: 1m}", 20, 20 * time.Second},
		{"the longest of its containers", "{stop: 2s, containers: {c: {stop: 7s}}}", 30, 7 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := named(bare("x", "serve"), "p", 1)
				p.Annotations = map[string]string{api.AnnotationSimulate: tt.note}
				w.bind(p, "n1")
				w.after(5 * time.Second)
				w.remove("p", tt.grace)
				there := func() bool {
					_, err := w.client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
					return !apierrors.IsNotFound(err)
				}
				if w.after(tt.ends - 500*time.Millisecond); !there() {
					t.Errorf("gone half a second before %v", tt.ends)
				}
				if w.after(time.Second); there() {
					t.Errorf("still there half a second after %v: %v", tt.ends, w.pod("p").Status.ContainerStatuses)
				}
			}, a100("n1", 4))
		})
	}
}
