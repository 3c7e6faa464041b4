package explain_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

// bare is a node without GPUs as a resource, which labels may tell to have some.
func bare(name string, edits ...func(*v1.Node)) *v1.Node {
	n := kubetest.Inventory(name, nil, "cpu", 48, "memory", 192<<30, "pods", 110)
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func discovered(n *v1.Node) {
	n.Labels[api.LabelCount], n.Labels[api.LabelProduct] = "8", "NVIDIA-A100-SXM4-40GB"
}

func tainted(n *v1.Node) {
	n.Spec.Taints = []v1.Taint{{Key: "dedicated", Value: "x", Effect: v1.TaintEffectNoSchedule}}
}

// TestGPUsOfADRADriver has nodes d-1 and d-2 whose 8 GPUs each only a DRA driver offers.
func TestGPUsOfADRADriver(t *testing.T) {
	named := devices.DRA{Devices: map[string]int{"d-1": 8, "d-2": 8}, Resources: []string{api.ResourceGPU}, Berth: true}
	claimed, stock := named, named
	claimed.Resources, stock.Berth = nil, false
	const one, two = "1 node has GPUs only through DRA (gpu.nvidia.com), which Berth does not use for nvidia.com/gpu yet: ",
		"2 nodes have GPUs only through DRA (gpu.nvidia.com), which Berth does not use for nvidia.com/gpu yet: "
	const install = "install the device plugin there, or let kube-scheduler bind the pod"
	asks := func(gpus int) *v1.Pod { return refused([]any{api.ResourceGPU, gpus}) }
	full := holds("a", "n", 4, 1)
	tests := []struct {
		name  string
		nodes []*v1.Node
		pods  []*v1.Pod
		dra   devices.DRA
		want  string
		code  reasons.Code
	}{
		{"no node offers the resource", []*v1.Node{bare("d-1"), bare("d-2")}, nil, named, two + install, reasons.CodeClaimOnly},
		{"labels tell of the GPUs too", []*v1.Node{bare("d-1", discovered), bare("d-2", discovered)}, nil, named, two + install, reasons.CodeClaimOnly},
		{
			"no class names the resource",
			[]*v1.Node{bare("d-1"), bare("x")},
			nil, claimed,
			one + "request them by spec.resourceClaims, or install the device plugin there", reasons.CodeClaimOnly,
		},
		{
			"others hold the GPUs of another node",
			[]*v1.Node{big("n"), bare("d-1")},
			[]*v1.Pod{full},
			named,
			"waits for 2 nvidia.com/gpu; of 4 that nodes offer it, no node has that many free; " + one + install, reasons.CodeHeld,
		},
		{"one of them has a taint", []*v1.Node{bare("d-1", tainted), bare("d-2")}, nil, named, one + install, reasons.CodeClaimOnly},
		{
			"all of them have a taint",
			[]*v1.Node{big("n"), bare("d-1", tainted)},
			[]*v1.Pod{full},
			named,
			"waits for 2 nvidia.com/gpu; of 4 that nodes offer it, no node has that many free", reasons.CodeHeld,
		},
		{
			"kube-scheduler serves them",
			[]*v1.Node{bare("d-1")},
			nil, stock,
			"waits for 2 nvidia.com/gpu; node d-1: its devices are those of the DRA driver gpu.nvidia.com, of which kube-scheduler gives one for each nvidia.com/gpu; how many are free is not counted",
			reasons.CodeHeld,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := asks(2)
			s := explain.Situation{Pod: pod, Nodes: tt.nodes, Pods: append(tt.pods, pod), DRA: tt.dra}
			f := s.Facts(nil, time.Unix(1_760_000_000, 0))
			f.Place = reasons.Place{}
			got := reasons.Judge(&f)
			if got.Message != tt.want || f.Code(&got) != tt.code {
				t.Errorf("%s %s\nwant %s %s", f.Code(&got), got.Message, tt.code, tt.want)
			}
			if !tt.dra.Berth {
				return
			}
			r, w := explain.NewRefusals(), &world{nodes: tt.nodes, pods: make([][]*v1.Pod, len(tt.nodes)), at: make([]int64, len(tt.nodes))}
			w.pods[0] = tt.pods
			r.Sentence(pod, "0/2 nodes are available", queue.Room, nil, w) // before the driver has come
			r.SetDRA(tt.dra)
			if got := r.Sentence(pod, "0/2 nodes are available", queue.Room, nil, w); got != tt.want {
				t.Errorf("the condition: %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestNodesOfADRADriverAreNamed reads what is said of each node.
func TestNodesOfADRADriverAreNamed(t *testing.T) {
	pod := refused([]any{api.ResourceGPU, 1})
	s := explain.Situation{
		Pod: pod, Nodes: []*v1.Node{big("n"), bare("d-1")}, Pods: []*v1.Pod{holds("a", "n", 4, 1), pod},
		DRA: devices.DRA{Devices: map[string]int{"d-1": 1}, Resources: []string{api.ResourceGPU}, Berth: true},
	}
	found, err := explain.Find(&s, time.Unix(1_760_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	last := found.Rejections[len(found.Rejections)-1]
	if !strings.HasPrefix(last.Why, "has 1 device only through the DRA driver gpu.nvidia.com, which Berth does not use for nvidia.com/gpu yet") || last.Nodes[0] != "d-1" {
		t.Errorf("%+v", last)
	}
	if !strings.HasPrefix(last.Do, "install the device plugin there") {
		t.Errorf("what to do: %q", last.Do)
	}
}
