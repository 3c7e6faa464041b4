package devices_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
)

// quarters offers each GPU as four.
var quarters = gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{api.ResourceGPU: 4}}

// TestSeveralGPUsAreTriedBeforeShares has pods about which every plugin is asked, on a
// node with shares and one with GPUs.
func TestSeveralGPUsAreTriedBeforeShares(t *testing.T) {
	for _, tt := range []struct {
		name   string
		asks   string
		note   string // of the pod: whether shares do
		whole  int    // GPUs of the other node
		first  []string
		second []string // after the plugins have refused those
	}{
		{"the node with GPUs, then both", "gpu=3", "", 4, []string{"whole"}, nil},
		{"both at once, where no node has the GPUs", "gpu=3", "", 2, nil, nil},
		{"both at once, where shares do", "gpu=3", "true", 4, nil, nil},
		{"both at once for one GPU", "gpu=1", "", 4, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &handle{nodes: []*info{
				{node: t4Node(t, "shares", 4, quarters), generation: 1}, {node: t4Node(t, "whole", tt.whole, gpu.Sharing{}), generation: 2},
			}}
			p := newPlugin(t, h)
			pod := asking("x", "", tt.asks)
			pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}}
			if tt.note != "" {
				pod.Annotations = map[string]string{api.AnnotationSharesDo: tt.note}
			}
			for _, want := range [][]string{tt.first, tt.second} {
				s := &state{data: map[fwk.StateKey]fwk.StateData{}}
				left, status := p.PreFilter(t.Context(), s, pod, h.list())
				if !status.IsSuccess() {
					t.Fatal(status)
				}
				var got []string
				if !left.AllNodes() {
					got = slices.Sorted(slices.Values(left.NodeNames.UnsortedList()))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("nodes that are asked: -want +got\n%s", diff)
				}
				p.PostFilter(t.Context(), s, pod, nil)
			}
		})
	}
}

// TestSharesForSeveralGPUsAreToldOf binds pods to the one node there is, with shares.
func TestSharesForSeveralGPUsAreToldOf(t *testing.T) {
	for _, tt := range []struct {
		name       string
		asks, note string
		nodeNote   string
		want       string
	}{
		{"three", "gpu=3", "", "", "x SharesNotGPUs Container main asks for 3 GPUs and got 3 shares of 3 on node n."},
		{"six of four GPUs", "gpu=6", "", "", "x SharesNotGPUs Container main asks for 6 GPUs and got 6 shares of 4 on node n."},
		{"one", "gpu=1", "", "", ""},
		{"the pod says that shares do", "gpu=3", "true", "", ""},
		{"the node says that shares do", "gpu=3", "", "true", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := t4Node(t, "n", 4, quarters)
			n.Annotations[api.AnnotationSharesDo] = tt.nodeNote
			h := &handle{nodes: []*info{{node: n, generation: 1}}}
			h.client = client(func(*v1.Binding) error { return nil }, nil)
			p := newPlugin(t, h)
			pod := asking("x", "", tt.asks)
			pod.Annotations = map[string]string{api.AnnotationSharesDo: tt.note}
			s := &state{data: map[fwk.StateKey]fwk.StateData{}}
			if _, status := p.PreFilter(t.Context(), s, pod, h.list()); !status.IsSuccess() {
				t.Fatal(status)
			}
			if status := p.Reserve(t.Context(), s, pod, "n"); !status.IsSuccess() {
				t.Fatal(status)
			}
			if status := p.Bind(t.Context(), s, pod, "n"); !status.IsSuccess() {
				t.Fatal(status)
			}
			got := strings.Join(h.warned, "\n")
			if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
				t.Errorf("warned %q, want %q", got, tt.want)
			}
		})
	}
}
