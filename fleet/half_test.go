package fleet_test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The API server deletes in two writes: that the grace period is 0, and the removal.
// Where it was killed between the two, nobody but the kubelet asks again.
func TestADeletionThatWasCutInHalfIsFinishedAfterTheRestart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(named(bare("x", "serve"), "half", 1), "n1")
		w.after(2 * time.Second)
		w.want("half", "Running c:ready")
		w.kill()
		w.remove("half", 0)
		w.start()
		w.after(2 * time.Second)
		_, err := w.client.CoreV1().Pods("default").Get(t.Context(), "half", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("the pod is still there (%v)", err)
		}
	}, a100("n1", 2))
}
