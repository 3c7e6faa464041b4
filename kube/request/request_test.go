package request_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/view"
)

// spelt makes a pod of "annotation=value" and "resource=number" words, the
// latter for container main, or for another as "name:resource=number".
func spelt(words string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", Annotations: map[string]string{}}}
	pod.Spec.Containers = []v1.Container{{Name: "main"}, {Name: "side"}}
	pod.Spec.InitContainers = []v1.Container{{Name: "init"}}
	at := map[string]*v1.Container{"main": &pod.Spec.Containers[0], "side": &pod.Spec.Containers[1], "init": &pod.Spec.InitContainers[0]}
	for word := range strings.FieldsSeq(words) {
		key, value, _ := strings.Cut(word, "=")
		if !strings.Contains(key, "/") {
			pod.Annotations[key] = value
			continue
		}
		container, name, found := strings.Cut(key, ":")
		if !found {
			container, name = "main", key
		}
		c := at[container]
		if c.Resources.Limits == nil {
			c.Resources.Limits = v1.ResourceList{}
		}
		c.Resources.Limits[v1.ResourceName(name)] = resource.MustParse(value)
	}
	return pod
}

func TestSpellings(t *testing.T) {
	for _, tt := range []struct {
		name, pod string
		parts     string // containers and asks
		demand    string // GPUs, milli, MiB
	}{
		{"half a GPU", "gpu-fraction=0.5", "main: 1 gpu-fraction of 0.5", "1 500 0"},
		{"a third is cut to a thousandth", "gpu-fraction=0.33333", "main: 1 gpu-fraction of 0.333", "1 333 0"},
		{"a part that binary numbers do not have", "gpu-fraction=0.29", "main: 1 gpu-fraction of 0.29", "1 290 0"},
		{"a crumb is a thousandth", "gpu-fraction=0.00001", "main: 1 gpu-fraction of 0.001", "1 1 0"},
		{"all of a GPU", "gpu-fraction=1.0", "main: 1 gpu-fraction of 1", "1 1000 0"},
		{"halves of two GPUs", "gpu-fraction=0.5 gpu-fraction-num-devices=2", "main: 2 gpu-fraction of 0.5", "2 500 0"},
		{"memory in MiB", "gpu-memory=4000", "main: 1 gpu-memory of 4000 MiB", "1 0 4000"},
		{"the share of another container", "gpu-fraction=0.5 gpu-fraction-container-name=side", "side: 1 gpu-fraction of 0.5", "1 500 0"},
		{"the share of an init container", "gpu-fraction=0.5 gpu-fraction-container-name=init", "init: 1 gpu-fraction of 0.5", "1 500 0"},
		{"an empty annotation is none", "gpu-fraction=", "", "0 0 0"},
		{"what cannot be read fits nowhere", "gpu-fraction=half", "main: 1 gpu-fraction of -0.001", "1 1 0"},

		{"HAMi's memory", "nvidia.com/gpu=1 nvidia.com/gpumem=3000", "main: 1 nvidia.com/gpumem of 3000 MiB", "1 0 3000"},
		{"HAMi's memory of two GPUs", "nvidia.com/gpu=2 nvidia.com/gpumem=3000", "main: 2 nvidia.com/gpumem of 3000 MiB", "2 0 3000"},
		{"HAMi's memory without a number is of one GPU", "nvidia.com/gpumem=3000", "main: 1 nvidia.com/gpumem of 3000 MiB", "1 0 3000"},
		{"HAMi's memory and compute", "nvidia.com/gpu=1 nvidia.com/gpumem=3000 nvidia.com/gpucores=30", "main: 1 nvidia.com/gpumem of 0.3 and 3000 MiB", "1 0 3000"},
		{"all of the compute is the whole GPU", "nvidia.com/gpu=1 nvidia.com/gpumem=3000 nvidia.com/gpucores=100", "main: 1 nvidia.com/gpumem of 1 and 3000 MiB", "1 1000 0"},
		{"HAMi's memory in percent", "nvidia.com/gpu=1 nvidia.com/gpumem-percentage=50", "main: 1 nvidia.com/gpumem-percentage of 0.5", "1 500 0"},
		{"of percents the greater counts", "nvidia.com/gpu=1 nvidia.com/gpumem-percentage=20 nvidia.com/gpucores=30", "main: 1 nvidia.com/gpumem-percentage of 0.3", "1 300 0"},
		{"compute without memory has all memory, as with HAMi", "nvidia.com/gpu=1 nvidia.com/gpucores=30", "main: 1 nvidia.com/gpucores of 1", "1 1000 0"},
		{"a GPU alone is a whole one", "nvidia.com/gpu=2", "main: 2 nvidia.com/gpu", "2 1000 0"},

		{"Volcano's memory", "volcano.sh/vgpu-number=2 volcano.sh/vgpu-memory=3000", "main: 2 volcano.sh/vgpu-memory of 3000 MiB", "2 0 3000"},
		{"Volcano's memory without a number", "volcano.sh/vgpu-memory=3072", "main: 1 volcano.sh/vgpu-memory of 3 GiB", "1 0 3072"},
		{"Volcano's memory in percent", "volcano.sh/vgpu-number=1 volcano.sh/vgpu-memory-percentage=25", "main: 1 volcano.sh/vgpu-memory-percentage of 0.25", "1 250 0"},
		{"Volcano's number alone is whole GPUs", "volcano.sh/vgpu-number=3", "main: 3 volcano.sh/vgpu-number of 1", "3 1000 0"},

		{"memory beside several GPUs is of each", "nvidia.com/gpu=2 nvidia.com/gpu-memory=20", "main: 2 nvidia.com/gpu with 20 GiB", "2 1000 0"},
		{"two containers, two shares", "nvidia.com/gpumem=3000 side:nvidia.com/gpumem=5000", "main: 1 nvidia.com/gpumem of 3000 MiB, side: 1 nvidia.com/gpumem of 5000 MiB", "1 0 5000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := spelt(tt.pod)
			var parts []string
			for _, p := range request.Parts(pod) {
				for _, a := range p.Asks {
					text := fmt.Sprintf("%s: %d %s", p.Name, a.Count, a.Resource)
					if size, _, ok := a.ShareOf(); ok {
						text += " of " + size.String()
					}
					if a.LeastGiB > 0 {
						text += fmt.Sprintf(" with %d GiB", a.LeastGiB)
					}
					parts = append(parts, text)
				}
			}
			if diff := cmp.Diff(tt.parts, strings.Join(parts, ", ")); diff != "" {
				t.Errorf("Parts (-want +got):\n%s", diff)
			}
			r := request.Demand(pod, gpu.Sharing{})
			if got := fmt.Sprint(r.GPUs, " ", r.MilliGPU, " ", r.GPUMemoryBytes>>20); got != tt.demand || r.Validate() != nil {
				t.Errorf("Demand = %s, %v; want %s", got, r.Validate(), tt.demand)
			}
			if asks := request.Of(pod) != nil; asks != (tt.parts != "") || request.AsksForGPUs(pod) != asks {
				t.Errorf("Request = %v, and that it asks for GPUs is %v", request.Of(pod), request.AsksForGPUs(pod))
			}
		})
	}
}

func TestCheckRequest(t *testing.T) {
	for _, tt := range []struct{ name, pod, want string }{
		{"a pod without GPUs", "", ""},
		{"whole GPUs", "nvidia.com/gpu=2", ""},
		{"half a GPU", "gpu-fraction=0.5", ""},
		{"all of a GPU", "gpu-fraction=1", ""},
		{"none of a GPU", "gpu-fraction=0", request.FaultFraction},
		{"more than a GPU", "gpu-fraction=1.5", request.FaultFraction},
		{"less than nothing", "gpu-fraction=-0.5", request.FaultFraction},
		{"no number", "gpu-fraction=NaN", request.FaultFraction},
		{"a word", "gpu-fraction=half", request.FaultFraction},
		{"memory of nothing", "gpu-memory=0", request.FaultMemory},
		{"memory with a unit", "gpu-memory=4Gi", request.FaultMemory},
		{"a fraction and memory", "gpu-fraction=0.5 gpu-memory=4000", request.FaultTwoSizes},
		{"no number of GPUs", "gpu-fraction=0.5 gpu-fraction-num-devices=0", request.FaultDevices},
		{"a number of GPUs without a size", "gpu-fraction-num-devices=2", request.FaultNoSize},
		{"a container that is not there", "gpu-fraction=0.5 gpu-fraction-container-name=other", request.FaultContainer},
		{"a fraction beside a GPU", "gpu-fraction=0.5 nvidia.com/gpu=1", request.FaultTwice},
		{"a fraction beside a GPU of another container", "gpu-fraction=0.5 side:nvidia.com/mig-1g.5gb=1", request.FaultTwice},
		{"memory and MIG", "nvidia.com/gpu-memory=6 nvidia.com/mig-1g.5gb=1", request.FaultMIG},
		{"memory and MIG in two containers", "nvidia.com/gpu-memory=6 side:nvidia.com/mig-1g.5gb=1", ""},
		{"HAMi's memory and MIG", "nvidia.com/gpumem=3000 init:nvidia.com/mig-1g.5gb=1 init:nvidia.com/gpumem=3000", request.FaultMIG},
		{"memory in two spellings", "nvidia.com/gpumem=3000 nvidia.com/gpu-memory=3", request.FaultSpellings},
		{"HAMi's and Volcano's", "nvidia.com/gpucores=30 volcano.sh/vgpu-memory=3000", request.FaultSpellings},
		{"memory of a share", "nvidia.com/gpu.shared=1 nvidia.com/gpu-memory=3", request.FaultDivided},
		{"two numbers of GPUs", "nvidia.com/gpu=1 volcano.sh/vgpu-number=1", request.FaultVolcano},
		{"memory in MiB and percent", "nvidia.com/gpumem=3000 nvidia.com/gpumem-percentage=50", request.FaultAmounts},
		{"more than a hundred percent of memory", "nvidia.com/gpumem-percentage=200", request.FaultPercent},
		{"more than a hundred percent of compute", "volcano.sh/vgpu-number=2 volcano.sh/vgpu-cores=200", request.FaultPercent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := request.Check(spelt(tt.pod)); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// What nodes and pods say is read of shares by size too: by the scheduler's
// counting, and by `berth gpus`.
func TestSharesBySizeAreHeld(t *testing.T) {
	node := kubetest.Publishing(map[string]string{api.AnnotationInventory: kubetest.Inventory3})
	half := func(name string) *v1.Pod {
		p := spelt("gpu-fraction=0.5")
		p.Name, p.UID, p.Spec.NodeName = name, types.UID(name), "n"
		p.Annotations[api.AnnotationDevices] = `{"main":[{"uuid":"GPU-0","milliGPU":500,"memoryBytes":8053063680}]}`
		return p
	}
	a, b := half("a"), half("b")
	c := kubetest.Reported(spelt("nvidia.com/gpu=1 nvidia.com/gpumem=3000"), api.ResourceHAMiMemory, "GPU-1::mem-3000Mi-0")
	c.Name, c.UID, c.Spec.NodeName = "c", "c", "n"
	l, problems, err := devices.Ledger(node, []devices.Bound{{Pod: a}, {Pod: b}, {Pod: c}})
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	var held []string
	for _, h := range l.Held() {
		held = append(held, fmt.Sprint(h.Owner, " ", h.Device.ID, " ", h.Device.MilliGPU))
	}
	if diff := cmp.Diff([]string{"a GPU-0::milli-500-0 500", "b GPU-0::milli-500-1 500", "c GPU-1::mem-3000Mi-0 195"}, held); diff != "" {
		t.Errorf("Ledger (-want +got):\n%s", diff)
	}
	var seen []string
	v := view.Cluster([]*v1.Node{node}, []*v1.Pod{a, b, c})
	v.Nodes[0].EachHolder(func(h devices.Holder) {
		seen = append(seen, fmt.Sprint(h.Pod, " ", h.UUID, " ", h.MilliGPU, " ", h.MemoryBytes>>20))
	})
	if diff := cmp.Diff([]string{"a GPU-0 500 7680", "b GPU-0 500 7680", "c GPU-1 195 3000"}, seen); diff != "" {
		t.Errorf("Cluster (-want +got):\n%s", diff)
	}
}

func TestAShareThatIsNotCommittedCountsForNothing(t *testing.T) {
	node := kubetest.Publishing(map[string]string{api.AnnotationInventory: kubetest.Inventory3})
	for _, words := range []string{"gpu-fraction=0.5", "nvidia.com/gpumem=3000", "nvidia.com/gpu-memory=3"} {
		l, problems, err := devices.Ledger(node, []devices.Bound{{Pod: spelt(words)}})
		if err != nil || len(problems) > 0 || len(l.Held()) > 0 {
			t.Errorf("%s: %v, %v, %v", words, l.Held(), problems, err)
		}
	}
}
