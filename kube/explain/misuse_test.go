package explain_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
)

// TestSixteenGPUsThatAreFourSharedT4 has a pod that asks for 16 GPUs and gets time slices of
// four T4: `berth why` says so, whichever scheduler has placed it.
func TestSixteenGPUsThatAreFourSharedT4(t *testing.T) {
	shared := func(edits ...func(*v1.Node)) *v1.Node {
		n := kubetest.Foreign("t4", map[string]string{api.LabelProduct: "Tesla-T4-SHARED", api.LabelReplicas: "4", "nvidia.com/gpu.count": "4"}, "cpu", 48, api.ResourceGPU, 16)
		for _, edit := range edits {
			edit(n)
		}
		return n
	}
	for _, tt := range []struct {
		name string
		node *v1.Node
		edit func(*v1.Pod)
		says string // "" is nothing
	}{
		{"by the labels of its node alone", shared(), func(*v1.Pod) {}, "asks for 16 GPUs and got 16 shares on node t4"},
		{"by the devices that Berth's scheduler has written", shared(), func(p *v1.Pod) {
			p.Annotations = map[string]string{api.AnnotationDevices: `{"c":[` + strings.TrimSuffix(strings.Repeat(`{"uuid":"GPU-1","milliGPU":250},`, 16), ",") + `]}`}
		}, "asks for 16 GPUs and got 16 shares of 1 on node t4"},
		{"a pod that says that shares do", shared(), func(p *v1.Pod) { p.Annotations = map[string]string{api.AnnotationSharesDo: "true"} }, ""},
		{"a node on which shares have a name of their own", shared(func(n *v1.Node) {
			n.Status.Capacity[api.ResourceGPUShared] = n.Status.Capacity[api.ResourceGPU]
		}), func(*v1.Pod) {}, ""},
		{"a node with whole GPUs", kubetest.Foreign("t4", nil, "cpu", 48, api.ResourceGPU, 16), func(*v1.Pod) {}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := kubetest.Pod("p", "t4", api.ResourceGPU, 16)
			tt.edit(pod)
			code, _ := explain.Misuse(pod, []*v1.Node{tt.node})
			if got := code == reasons.CodeShares; got != (tt.says != "") {
				t.Errorf("its code is %q", code)
			}
			if said := request.SeveralShares(pod, tt.node, commitment(t, pod)); !strings.Contains(said, tt.says) || tt.says == "" && said != "" {
				t.Errorf("it says %q, want %q", said, tt.says)
			}
		})
	}
}

func commitment(t *testing.T, pod *v1.Pod) map[string][]sharing.Named {
	t.Helper()
	named, err := commit.Committed(pod)
	if err != nil {
		t.Fatal(err)
	}
	return named
}
