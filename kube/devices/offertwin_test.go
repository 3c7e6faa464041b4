package devices

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// TestHoldsIsWhatTheViewCounts compares Offer.Holds with the count of a whole node, whose
// holders people see, on nodes and pods that contradict each other in every way.
func TestHoldsIsWhatTheViewCounts(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		node := oddNode(r)
		offer := OfferOf(node)
		for range 5 {
			pod := oddPod(r)
			want, devices := int64(0), int64(0)
			counted := CountNode(node, []*v1.Pod{pod}, map[request.Owner]int{})
			counted.EachHolder(func(h Holder) {
				want += h.part.quota()
				devices++
			})
			got := int64(0)
			for _, p := range offer.Holds(pod, nil) {
				got += p.Parts
				devices -= p.Devices
			}
			if got != want || devices != 0 {
				t.Fatalf("seed %d: the pod holds %d parts, and %d in the view; %d devices differ\n%v\n%v", seed, got, want, devices, node, pod)
			}
		}
	}
}

// TestASettledPodHoldsWhatItWillHold compares what pods hold before devices are committed to them and after, where Settled
// says that it is the same, on nodes that contradict themselves and on nodes with an inventory.
func TestASettledPodHoldsWhatItWillHold(t *testing.T) {
	settled := 0
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 5))
		node, product := oddNode(r), []string{"NVIDIA A100-SXM4-40GB", "Tesla T4"}
		if r.IntN(2) == 0 {
			node.Status.Capacity[api.ResourceGPU] = *quantity(2)
			node.Annotations[api.AnnotationInventory] = fmt.Sprintf(`[{"uuid":"GPU-0","product":%q,"memoryBytes":16106127360},{"uuid":"GPU-1","product":%q,"memoryBytes":16106127360}]`,
				product[r.IntN(2)], product[r.IntN(2)])
		}
		offer, pod := OfferOf(node), oddPod(r)
		pod.Annotations, pod.Status = map[string]string{}, v1.PodStatus{}
		want := offer.Settled(pod)
		if want == nil {
			continue
		}
		settled++
		if got := offer.Holds(pod, nil); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: holds %+v without devices, and is to hold %+v\n%v\n%v", seed, got, want, node, pod)
		}
		_, n, _ := request.OfOne(pod)
		var list []string
		for _, i := range r.Perm(len(offer.m.gpus))[:n] {
			uuid := offer.m.gpus[i].UUID
			if uuid == UnknownUUID {
				uuid = fmt.Sprint("GPU-", i)
			}
			list = append(list, fmt.Sprintf(`{"uuid":%q,"milliGPU":1000,"memoryBytes":%d}`, uuid, offer.m.gpus[i].MemoryBytes))
		}
		pod.Annotations[api.AnnotationDevices] = `{"c":[` + strings.Join(list, ",") + `]}`
		if got := offer.Holds(pod, nil); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: holds %+v with devices, and is to hold %+v\n%v\n%v", seed, got, want, node, pod)
		}
	}
	if settled < 100 {
		t.Errorf("%d pods are settled: too few to show anything", settled)
	}
}

// TestClaimsOfOneContainerAreThoseOfSeveral compares the short way for pods of one container with that for all pods, which those take
// that have another container without GPUs.
func TestClaimsOfOneContainerAreThoseOfSeveral(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 4))
		pod := oddPod(r)
		var reported map[string][]sharing.Named
		if r.IntN(2) == 0 {
			reported = map[string][]sharing.Named{"c": {{UUID: "GPU-1", MilliGPU: 500}}}
		}
		if pod.Annotations[api.AnnotationDevices] != "" && r.IntN(4) == 0 {
			pod.Annotations[api.AnnotationDevices] = []string{"broken", "{}", `{"other":[{"uuid":"GPU-0","milliGPU":1,"memoryBytes":1}]}`}[r.IntN(3)]
		}
		if r.IntN(8) == 0 {
			pod.Annotations[api.AnnotationKAIFraction] = "0.5"
		}
		more := pod.DeepCopy()
		more.Spec.Containers = append(more.Spec.Containers, v1.Container{Name: "plain"})
		if got, want := claims(pod, reported), claims(more, reported); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %+v, want %+v", seed, got, want)
		}
		if got, want := request.Asks(pod), request.Asks(more); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: asks for %+v, want %+v", seed, got, want)
		}
	}
}

// oddNode is a node with or without an inventory, and labels that may not fit it.
func oddNode(r *rand.Rand) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}, Annotations: map[string]string{}}}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	if r.IntN(2) == 0 {
		n.Annotations[api.AnnotationInventory] = pick(
			`[{"uuid":"GPU-0","product":"Tesla T4","memoryBytes":16106127360,"healthy":true},{"uuid":"GPU-1","product":"Tesla T4","memoryBytes":16106127360,"shares":4}]`,
			`[{"uuid":"GPU-0","product":"NVIDIA A100-SXM4-40GB","memoryBytes":42949672960,"computeSlices":7,"mig":[{"uuid":"MIG-0","profile":"1g.5gb","slices":1},{"uuid":"MIG-1","profile":"3g.20gb","start":4,"slices":3}]}]`,
			`[]`, `broken`)
	}
	for label, value := range map[string]string{
		api.LabelProduct: pick("Tesla-T4", "NVIDIA-A30-MIG-1g.6gb", ""), api.LabelReplicas: pick("1", "4", "x"), api.LabelCount: pick("2", "0"),
		labelMIGStrategy: pick("single", "mixed", ""), labelSlices: pick("1", "2", ""), "nvidia.com/mig-1g.5gb.replicas": pick("2", "1"),
	} {
		if r.IntN(2) == 0 {
			n.Labels[label] = value
		}
	}
	n.Status.Capacity = v1.ResourceList{}
	for _, name := range []string{api.ResourceGPU, api.ResourceGPUShared, "nvidia.com/mig-1g.5gb"} {
		if r.IntN(2) == 0 {
			n.Status.Capacity[v1.ResourceName(name)] = *quantity(r.IntN(8))
		}
	}
	n.Status.Allocatable = n.Status.Capacity
	return n
}

// oddPod is a pod with devices that it may not have asked for.
func oddPod(r *rand.Rand) *v1.Pod {
	limits := v1.ResourceList{}
	for _, name := range []string{api.ResourceGPU, api.ResourceGPUShared, "nvidia.com/mig-1g.5gb", api.ResourceGPUMemory} {
		if r.IntN(3) == 0 {
			limits[v1.ResourceName(name)] = *quantity(1 + r.IntN(4))
		}
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{}}}
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Limits: limits}}}
	uuid := []string{"GPU-0", "GPU-1", "MIG-0", "MIG-1", "GPU-x", "MIG-x"}[r.IntN(6)]
	switch r.IntN(3) {
	case 0:
		p.Annotations[api.AnnotationDevices] = fmt.Sprintf(`{"c":[{"uuid":%q,"milliGPU":%d,"memoryBytes":%d}]}`, uuid, []int{0, 142, 250, 428, 1000}[r.IntN(5)], r.IntN(2)<<32)
	case 1:
		s := v1.ResourceStatus{Name: api.ResourceGPU, Resources: []v1.ResourceHealth{{ResourceID: v1.ResourceID(uuid + []string{"", "::1"}[r.IntN(2)])}}}
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", AllocatedResourcesStatus: []v1.ResourceStatus{s}}}
	}
	return p
}

func quantity(n int) *resource.Quantity { return resource.NewQuantity(int64(n), resource.DecimalSI) }
