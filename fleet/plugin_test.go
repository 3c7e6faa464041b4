package fleet_test

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// A plugin that is seen to be ready has read its ConfigMap, so a later change of
// it waits for the next start; and a status that could not be written loses nothing of
// what was read.
func TestAPluginReadsItsConfigurationBeforeItSaysReadyAndOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		reads, refused := 0, 0
		w.client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			reads++
			return false, nil, nil
		})
		w.client.PrependReactor("update", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			pod, ok := a.(clienttesting.UpdateAction).GetObject().(*v1.Pod)
			if !ok || a.GetSubresource() != "status" || pod.Name != "plugin-1" || !readyPod(pod) {
				return false, nil, nil
			}
			if reads == 0 {
				t.Error("the plugin is written to be ready and has not read its ConfigMap")
			}
			if refused++; refused == 1 {
				return true, nil, errors.New("the API server is away")
			}
			return false, nil, nil
		})
		w.configMap("gpu-operator", "device-plugin-config", byFour)
		w.restartPlugin("", "plugin-1")
		w.after(10 * time.Second)
		w.wantAllocatable("n1", "nvidia.com/gpu", 32)
		if refused < 2 || reads != 1 {
			t.Errorf("%d statuses that say ready were written and the ConfigMap was read %d times, want it read once and a second status after the refused one", refused, reads)
		}
	}, a100("n1", 8))
}

func readyPod(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
