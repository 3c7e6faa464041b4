package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/fleet/spec"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/test/soak"
)

// TestNothingIsHeldTwice binds, deletes, breaks, heals and restarts at random.
// After each step it reads pods as anybody could and adds up what they hold: no
// device has two holders, and no GPU is held beyond its size.
//
// rows: GS-02 GS-92
func TestNothingIsHeldTwice(t *testing.T) {
	for seed := range soak.Pick[uint64](2, 4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := rand.New(rand.NewPCG(seed, 1))
				for i := range 80 {
					w.random(r, i)
					w.checkHeld(i)
				}
			}, a100("n1", 4), cut("n2"), shared("n3"))
		})
	}
}

// cut is a node of two GPUs in MIG devices of two profiles.
func cut(name string) spec.Node {
	n := a100(name, 2)
	p, _ := gpu.Find("NVIDIA A100-SXM4-40GB")
	for i := range n.GPUs {
		if err := gpu.Cut(&n.GPUs[i], p, []string{"3g.20gb", "1g.5gb", "1g.5gb"}); err != nil {
			panic(err)
		}
	}
	n.Sharing = gpu.Sharing{MIGStrategy: gpu.MIGMixed}
	return n
}

// shared is a node of two GPUs in four shares each.
func shared(name string) spec.Node {
	n := a100(name, 2)
	n.Sharing = gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{"nvidia.com/gpu": 4}}
	return n
}

// random does one thing.
func (w *world) random(r *rand.Rand, i int) {
	w.t.Helper()
	nodes := []string{"n1", "n2", "n3"}
	switch node := nodes[r.IntN(3)]; r.IntN(10) {
	default:
		p := named(bare("x", "sleep", []string{"5", "60", "infinity"}[r.IntN(3)]), fmt.Sprint("p", i), 0)
		if r.IntN(2) == 0 {
			p = policy(p, v1.RestartPolicyNever)
		}
		p.Spec.Containers[0].Resources.Requests = request(r, node)
		if node == "n1" && r.IntN(3) == 0 {
			p = fraction(r, p, a100("n1", 4).GPUs[r.IntN(4)].UUID)
		} else if r.IntN(4) == 0 {
			p.Spec.InitContainers = []v1.Container{{Name: "i", Image: "x", Command: []string{"sleep", "1"}}}
			p.Spec.InitContainers[0].Resources.Requests = request(r, node)
		}
		w.bind(p, node)
	case 6:
		w.annotate(node, "berth.dev/faults", []string{`["xid-79/0"]`, `["image"]`, `["kubelet"]`, `[]`, `[]`}[r.IntN(5)])
	case 7:
		w.kill()
		w.start()
	case 8, 9:
		list, _ := w.client.CoreV1().Pods("default").List(w.t.Context(), metav1.ListOptions{})
		if len(list.Items) > 0 {
			if p := list.Items[r.IntN(len(list.Items))]; p.DeletionTimestamp == nil {
				w.remove(p.Name, int64(r.IntN(3)*10))
			}
		}
	}
	w.after(time.Duration(r.IntN(4000)) * time.Millisecond)
}

func request(r *rand.Rand, node string) v1.ResourceList {
	name, most := v1.ResourceName("nvidia.com/gpu"), 3
	switch {
	case node == "n2":
		name = []v1.ResourceName{"nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"}[r.IntN(2)]
	case node == "n1" && r.IntN(3) == 0:
		name, most = "nvidia.com/gpu-memory", 30
	}
	return v1.ResourceList{name: *resource.NewQuantity(int64(1+r.IntN(most)), resource.DecimalSI)}
}

// fraction commits a part of a GPU to a pod, which asks for it as KAI's users do,
// or as HAMi's. Whether it fits is not looked at, as a scheduler gone mad would.
func fraction(r *rand.Rand, p *v1.Pod, uuid string) *v1.Pod {
	milli := []int64{250, 330, 500, 1000}[r.IntN(4)]
	p.Annotations = map[string]string{
		"gpu-fraction":        fmt.Sprint(float64(milli) / 1000),
		api.AnnotationDevices: fmt.Sprintf(`{"c":[{"uuid":%q,"milliGPU":%d,"memoryBytes":%d}]}`, uuid, milli, 40<<30*milli/1000),
	}
	p.Spec.Containers[0].Resources.Requests = nil
	if r.IntN(2) == 0 && milli%10 == 0 {
		delete(p.Annotations, "gpu-fraction")
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{
			"nvidia.com/gpu": *resource.NewQuantity(1, resource.DecimalSI), api.ResourceHAMiPercentage: *resource.NewQuantity(milli/10, resource.DecimalSI),
		}
	}
	return p
}

// shares lists the parts of whole GPUs that a pod holds: those of its status, and
// those committed to it that its status has no name for.
func shares(t *testing.T, p *v1.Pod) map[string][2]int64 {
	t.Helper()
	out := map[string][2]int64{}
	add := func(uuid string, milli, bytes int64) {
		out[uuid] = [2]int64{out[uuid][0] + milli, out[uuid][1] + bytes}
	}
	own := map[string]bool{} // an init container's devices are used again
	for _, id := range ids(p) {
		if own[id] {
			continue
		}
		own[id] = true
		if uuid, size, ok := sharing.ParseSizeID(id); ok {
			milli, bytes := size.Of(40 << 30)
			add(uuid, milli, bytes)
		} else if strings.HasPrefix(id, "GPU-") && !strings.Contains(id, "::") {
			add(id, 1000, 40<<30)
		}
	}
	if len(own) == 0 && p.Status.StartTime != nil {
		named, err := commit.Committed(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range named["c"] {
			add(d.UUID, d.MilliGPU, d.MemoryBytes)
		}
	}
	return out
}

// checkHeld adds up what the pods hold that have not ended.
func (w *world) checkHeld(step int) {
	w.t.Helper()
	list, err := w.client.CoreV1().Pods("default").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	holder, sum := map[string]string{}, map[string][2]int64{}
	for i := range list.Items {
		p := &list.Items[i]
		if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		own := map[string]bool{} // an init container's devices are used again
		for _, id := range ids(p) {
			if own[id] {
				continue
			}
			own[id] = true
			if other := holder[id]; other != "" {
				w.t.Fatalf("step %d: %s and %s both hold %s", step, other, p.Name, id)
			}
			holder[id] = p.Name
		}
		for uuid, part := range shares(w.t, p) {
			sum[uuid] = [2]int64{sum[uuid][0] + part[0], sum[uuid][1] + part[1]}
		}
	}
	for uuid, part := range sum {
		if part[0] > 1000 || part[1] > 40<<30 {
			w.t.Fatalf("step %d: %d milli-GPUs and %d bytes of %s are held", step, part[0], part[1], uuid)
		}
	}
	for id := range holder {
		if strings.Count(id, "::") > 1 {
			w.t.Fatalf("step %d: device %q", step, id)
		}
	}
}
