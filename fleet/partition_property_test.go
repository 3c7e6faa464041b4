package fleet_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/devices"
	"berth.dev/berth/test/soak"
)

// TestNoPodLosesItsDevicesToAPartition labels a node at random while pods come and go and
// the fleet restarts. After each step, every device that a running pod has is still
// one of the node's, and no pod has another's.
func TestNoPodLosesItsDevicesToAPartition(t *testing.T) {
	for seed := range soak.Pick[uint64](3, 30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				r, had := rand.New(rand.NewPCG(seed, 17)), map[string]string{}
				for i := range 60 {
					w.partitionAtRandom(r, i)
					w.checkHeld(i)
					w.checkThere(i, had)
				}
			}, a100("n1", 3))
		})
	}
}

func (w *world) partitionAtRandom(r *rand.Rand, i int) {
	w.t.Helper()
	switch r.IntN(8) {
	default:
		name := []v1.ResourceName{"nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"}[r.IntN(3)]
		p := named(bare("x", "sleep", []string{"5", "60", "infinity"}[r.IntN(3)]), fmt.Sprint("p", i), 0)
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{name: *resource.NewQuantity(int64(1+r.IntN(2)), resource.DecimalSI)}
		w.bind(policy(p, v1.RestartPolicyNever), "n1")
	case 3, 4:
		w.label("n1", migLabel, []string{"all-1g.5gb", "all-3g.20gb", "all-disabled", "all-enabled", "all-9g.99gb", ""}[r.IntN(6)])
	case 5:
		w.kill()
		w.start()
	case 6, 7:
		list, _ := w.client.CoreV1().Pods("default").List(w.t.Context(), metav1.ListOptions{})
		if len(list.Items) > 0 {
			if p := list.Items[r.IntN(len(list.Items))]; p.DeletionTimestamp == nil {
				w.remove(p.Name, int64(r.IntN(2)*10))
			}
		}
	}
	w.after(time.Duration(r.IntN(4000)) * time.Millisecond)
}

// checkThere compares the devices of running pods with the node's inventory, and with
// those that they had before.
func (w *world) checkThere(step int, had map[string]string) {
	w.t.Helper()
	w.after(time.Second)
	var gpus []devices.InventoryGPU
	if err := json.Unmarshal([]byte(w.node("n1").Annotations["berth.dev/inventory"]), &gpus); err != nil {
		w.t.Fatal(err)
	}
	there := map[string]bool{}
	for _, g := range gpus {
		there[g.UUID] = g.ComputeSlices == 0
		for _, m := range g.MIG {
			there[m.UUID] = true
		}
	}
	list, err := w.client.CoreV1().Pods("default").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		if p.Status.Phase != v1.PodRunning {
			if had[p.Name] != "" && p.Status.Reason == "UnexpectedAdmissionError" {
				w.t.Fatalf("step %d: pod %s had %s: %s", step, p.Name, had[p.Name], p.Status.Message)
			}
			continue
		}
		if now := fmt.Sprint(ids(p)); had[p.Name] == "" {
			had[p.Name] = now
		} else if had[p.Name] != now {
			w.t.Fatalf("step %d: pod %s had %s and has %s", step, p.Name, had[p.Name], now)
		}
		for _, id := range ids(p) {
			if !there[id] {
				w.t.Fatalf("step %d: pod %s has %s, which node n1 no longer has: %s", step, p.Name, id, w.cut())
			}
		}
	}
}
